"""A request carries what its handler needs and nothing of the frame."""

from __future__ import annotations

from crabka.net.connection import ConnectionInfo
from crabka.serving.request import Request


def test_a_request_can_be_handed_on_in_another_version() -> None:
    connection = ConnectionInfo(1, "PLAINTEXT", "h", 1)
    request = Request(18, 3, 7, None, "body", connection)
    handed_on = request._replace(version=4)
    assert (handed_on.version, handed_on.body, handed_on.connection) == (4, "body", connection)
