"""Whom admin requests reach, and which refusals pass."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.clients.admin.admin import Admin
from crabka.clients.admin.requests import check
from crabka.clients.errors import ClientNetworkError, RequestTimeoutError
from crabka.errors import OperationError
from crabka.protocol.apis import ApiKey, response_types
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.admin import with_admin
from tests.support.clients.scripted_broker import NO_ANSWER, DisconnectError, ReceivedRequest
from tests.support.clients.simulation import ClientSimulation


@pytest.mark.parametrize("code", [ErrorCode.not_controller, ErrorCode.not_leader_or_follower])
def test_a_controller_that_does_not_come_is_given_up(code: ErrorCode) -> None:
    def answer(request: ReceivedRequest) -> Any:
        return request.types.message(throttle_time=0, error_code=code, error_message=None)

    async def test(admin: Admin, simulation: ClientSimulation) -> None:
        with pytest.raises(OperationError) as caught:
            await admin.cluster.unregister_broker(1)
        assert caught.value.error_code is code
        assert len(simulation.brokers.asked(ApiKey.UNREGISTER_BROKER)) > 2

    with_admin(test, UNREGISTER_BROKER=answer)


def test_a_refusal_inside_the_entries_of_quotas_passes_when_there_is_a_controller() -> None:
    codes = [ErrorCode.none, ErrorCode.not_controller]

    def answer(request: ReceivedRequest) -> Any:
        entity = [request.types.new("EntityData", entity_type="user", entity_name="a")]
        entry = request.types.new("EntryData", error_code=codes.pop(), error_message=None, entity=entity)
        return request.types.message(throttle_time=0, entries=[entry])

    async def test(admin: Admin, simulation: ClientSimulation) -> None:
        await admin.quotas.alter({"user": "a"}, {"request_percentage": 50.0})
        assert len(simulation.brokers.asked(ApiKey.ALTER_CLIENT_QUOTAS)) == 2

    with_admin(test, ALTER_CLIENT_QUOTAS=answer)


def test_a_broker_that_goes_away_is_followed_by_another() -> None:
    broken: list[int] = []

    def answer(request: ReceivedRequest) -> Any:
        if not broken:
            broken.append(1)
            raise DisconnectError
        return request.types.message(throttle_time=0, error_code=ErrorCode.none, error_message=None)

    async def test(admin: Admin, simulation: ClientSimulation) -> None:
        await admin.cluster.unregister_broker(1)
        assert len(simulation.brokers.asked(ApiKey.UNREGISTER_BROKER)) == 2

    with_admin(test, node_ids=(1, 2), UNREGISTER_BROKER=answer)


def test_brokers_that_all_go_away_are_given_up() -> None:
    def answer(request: ReceivedRequest) -> Any:
        raise DisconnectError

    async def test(admin: Admin, _: ClientSimulation) -> None:
        with pytest.raises(ClientNetworkError):
            await admin.cluster.unregister_broker(1)

    with_admin(test, UNREGISTER_BROKER=answer)


@run_with(with_admin, UNREGISTER_BROKER=lambda _: NO_ANSWER)
async def test_a_broker_that_does_not_answer_is_not_asked_again(admin: Admin, simulation: ClientSimulation, /) -> None:
    with pytest.raises(RequestTimeoutError):
        await admin.cluster.unregister_broker(1)
    assert len(simulation.brokers.asked(ApiKey.UNREGISTER_BROKER)) == 1


def test_check_raises_what_an_answer_says() -> None:
    types = response_types(ApiKey.UNREGISTER_BROKER, 0)
    check(types.message(throttle_time=0, error_code=ErrorCode.none, error_message=None), "broker 1")
    silent = types.message(throttle_time=0, error_code=ErrorCode.invalid_request, error_message=None)
    with pytest.raises(OperationError, match="broker 1: invalid_request"):
        check(silent, "broker 1")
    with pytest.raises(OperationError, match=r"^no$"):
        check(types.message(throttle_time=0, error_code=ErrorCode.invalid_request, error_message="no"), "")
