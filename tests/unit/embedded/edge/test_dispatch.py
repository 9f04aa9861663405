"""The dispatcher in front of another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

from crabka.embedded.edge.dispatch import OWN_CLIENT_ID, EdgeDispatch
from crabka.embedded.edge.exchange import Behind
from crabka.embedded.edge.faults import Faults
from crabka.embedded.edge.journal import Journal
from crabka.embedded.edge.own_connections import OwnConnections
from crabka.net.dispatch import ConnectionInfo
from crabka.protocol.apis import ApiKey, encode_request
from crabka.protocol.headers import RequestHeader, pack_request
from tests.support.nodes.sim_node import build

if TYPE_CHECKING:
    from crabka.net.dispatch import Response

CONNECTION = ConnectionInfo(1, "PLAINTEXT", "h", 1)
BODY = encode_request(build(ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m", group_instance_id=None))
FRAME = memoryview(pack_request(RequestHeader(ApiKey.HEARTBEAT, 4, 1, "c", 0), BODY)[4:])
ANSWER = (b"answer",)


class StandInNode:
    """Reads no clock and has no topics."""

    node_id = 1

    def now_ms(self) -> int:
        """Begin of the epoch."""
        return 0

    def topic_name(self, _topic_id: UUID) -> str | None:
        """No topic."""
        return None

    def cut(self, connection: ConnectionInfo, *, after_answers: bool = False) -> None:
        """Not expected."""
        raise AssertionError((connection, after_answers))


class OpenTransport(asyncio.Transport):
    """A connection that a node has opened."""

    def is_closing(self) -> bool:
        """It is open."""
        return False


def answer(_connection: ConnectionInfo, _frame: memoryview) -> Response:
    return ANSWER


def edge(faults: Faults, journal: Journal | None, own: OwnConnections | None = None) -> EdgeDispatch:
    return EdgeDispatch(Behind(answer, StandInNode(), faults), journal, OwnConnections() if own is None else own)


def test_without_faults_and_journal_a_frame_passes_as_it_is() -> None:
    faults = Faults()
    assert edge(faults, None)(CONNECTION, memoryview(b"any bytes")) is ANSWER


def test_a_frame_that_is_no_request_is_left_to_the_node() -> None:
    journal = Journal()
    assert edge(Faults(), journal)(CONNECTION, memoryview(b"x")) is ANSWER
    assert journal.requests() == []


def test_a_fault_of_another_api_changes_nothing() -> None:
    faults, journal = Faults(), Journal()
    fault = faults.fail_next("Produce", "REQUEST_TIMED_OUT")
    assert edge(faults, journal)(CONNECTION, FRAME) is ANSWER
    assert fault.hits == 0
    [entry] = journal.requests("Heartbeat")
    assert (entry.peer, entry.fault, entry.fields["group_id"]) == ("h:1", None, "g")


def test_requests_of_the_kit_and_of_other_nodes_pass_by() -> None:
    faults, journal, own = Faults(), Journal(), OwnConnections()
    fault = faults.fail_next("Heartbeat", "REQUEST_TIMED_OUT")
    dispatch = edge(faults, journal, own)
    of_the_kit = memoryview(pack_request(RequestHeader(ApiKey.HEARTBEAT, 4, 1, OWN_CLIENT_ID, 0), BODY)[4:])
    assert dispatch(CONNECTION, of_the_kit) is ANSWER
    opened = OpenTransport({"sockname": ("h", 1)})
    own.add(opened)
    assert dispatch(CONNECTION, FRAME) is ANSWER
    assert (fault.hits, journal.requests()) == (0, [])
    assert dispatch(ConnectionInfo(2, "PLAINTEXT", "h", 2), FRAME) is not ANSWER
    assert fault.hits == 1
