"""Decisions on client quotas."""

from __future__ import annotations

import pytest

from crabka.controller.decisions.quotas import QuotaChange, alter_quotas
from crabka.protocol.error_codes import ErrorCode
from tests.support.quorum.images import applied, cluster

IMAGE = cluster(1)
RATE = {"producer_byte_rate": 5.0}


def test_quotas_are_stored_and_removed() -> None:
    entity = (("user", "a"), ("client-id", None))
    stored = applied(IMAGE, alter_quotas(IMAGE, [QuotaChange(entity, dict(RATE))]).records)
    assert list(stored.client_quotas.entities.values()) == [RATE]
    removed = applied(stored, alter_quotas(stored, [QuotaChange(entity, {"producer_byte_rate": None})]).records)
    assert not any(removed.client_quotas.entities.values())


@pytest.mark.parametrize(
    "change",
    [
        QuotaChange((), dict(RATE)),
        QuotaChange((("user", "a"), ("user", "b")), dict(RATE)),
        QuotaChange((("planet", "a"),), dict(RATE)),
        QuotaChange((("ip", "1.2.3.4"), ("user", "a")), dict(RATE)),
        QuotaChange((("ip", "1.2.3.4"),), dict(RATE)),
        QuotaChange((("user", "a"),), {"connection_creation_rate": 1.0}),
        QuotaChange((("user", "a"),), {"nope": 1.0}),
        QuotaChange((("user", "a"),), {"producer_byte_rate": 0.0}),
        QuotaChange((("user", "a"),), {"producer_byte_rate": -1.0}),
    ],
)
def test_what_is_refused(change: QuotaChange) -> None:
    good = QuotaChange((("user", "z"),), dict(RATE))
    outcome = alter_quotas(IMAGE, [change, good])
    assert [verdict.error_code for verdict in outcome.result] == [ErrorCode.invalid_request, ErrorCode.none]
    assert outcome.result[0].message
    assert len(outcome.records) == 1


def test_an_address_has_its_own_key() -> None:
    outcome = alter_quotas(IMAGE, [QuotaChange((("ip", "1.2.3.4"),), {"connection_creation_rate": 1.0})])
    assert outcome.result[0].error_code is ErrorCode.none


def test_validation_alone_makes_no_records() -> None:
    assert alter_quotas(IMAGE, [QuotaChange((("user", "a"),), dict(RATE))], validate_only=True).records == []
