"""Which faults a request gets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crabka.embedded.edge.fault import Fault
from crabka.embedded.edge.faults import Faults
from crabka.protocol.apis import ApiKey


def take(faults: Faults, api: ApiKey = ApiKey.PRODUCE, client_id: str = "c", node_id: int = 1) -> list[Fault]:
    return faults.take(faults.candidates(api, client_id, node_id), lambda _: True)


def test_faults_that_decide_are_given_to_one_request_each_in_their_order() -> None:
    faults = Faults()
    first = faults.fail_next("Produce", "REQUEST_TIMED_OUT")
    second = faults.drop_connection(after="Produce")
    slow = faults.delay("Produce", 1.0)
    assert take(faults) == [first, slow]
    assert take(faults) == [second, slow]
    assert take(faults) == [slow]


def test_a_fault_is_for_its_api_client_and_node() -> None:
    faults = Faults()
    faults.fail_next("Produce", "REQUEST_TIMED_OUT", client_id="c", node=2)
    assert not take(faults, ApiKey.FETCH, node_id=2)
    assert not take(faults, client_id="d", node_id=2)
    assert not take(faults, node_id=1)
    assert take(faults, node_id=2)


def test_a_request_without_the_rows_of_a_fault_leaves_it_for_others() -> None:
    faults = Faults()
    fault = faults.fail_next("Produce", "REQUEST_TIMED_OUT", topic="a")
    assert faults.take(list(faults), lambda selection: selection.topic == "b") == []
    assert not fault.is_spent


def test_a_broker_begins_to_look_before_the_first_fault_is_there() -> None:
    seen: list[int] = []
    faults: Faults = Faults(lambda: seen.append(len(faults)))
    faults.throttle("Fetch", 1)
    assert seen == [0]
    faults.clear()
    assert faults.is_empty


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda faults: faults.fail_next("Prodce", "REQUEST_TIMED_OUT"), "did you mean Produce"),
        (lambda faults: faults.fail_next("Produce", "REQUEST_TIMEDOUT_X"), "did you mean REQUEST_TIMED_OUT"),
        (lambda faults: faults.fail_next("Heartbeat", "NOT_COORDINATOR", topic="t"), "no rows of topics"),
        (lambda faults: faults.fail_next("Produce", "NOT_COORDINATOR", times=0), "at least 1 request"),
        (lambda faults: faults.delay("Fetch", -1), "at least 0 seconds"),
        (lambda faults: faults.throttle("Fetch", -1), "at least 0 ms"),
        (lambda faults: faults.drop_connection(), "either with after= or with before="),
        (lambda faults: faults.drop_connection(after="Fetch", before="Fetch"), "either with after= or with before="),
    ],
)
def test_what_can_never_happen_is_refused(ask: Callable[[Faults], Fault], message: str) -> None:
    faults = Faults()
    with pytest.raises(ValueError, match=message):
        ask(faults)
    assert faults.is_empty
