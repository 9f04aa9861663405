"""Settings of a producer that do not go together are refused."""

from __future__ import annotations

import pytest

from crabka.clients.producer.settings import MAX_IDEMPOTENT_IN_FLIGHT, ProducerSettings
from crabka.errors import ConfigError


def test_defaults_are_idempotent_without_transactions() -> None:
    settings = ProducerSettings()
    assert settings.idempotent
    assert settings.transactional_id is None


def test_idempotence_needs_all_acknowledgements_and_few_requests_in_flight() -> None:
    with pytest.raises(ConfigError):
        ProducerSettings(acks=1)
    with pytest.raises(ConfigError):
        ProducerSettings(max_in_flight=MAX_IDEMPOTENT_IN_FLIGHT + 1)
    ProducerSettings(acks=1, idempotent=False, max_in_flight=50)


def test_transactions_need_idempotence_and_a_name() -> None:
    with pytest.raises(ConfigError):
        ProducerSettings(transactional_id="")
    with pytest.raises(ConfigError):
        ProducerSettings(transactional_id="id", idempotent=False)
