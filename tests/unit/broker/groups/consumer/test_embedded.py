"""The embedded consumer protocol."""

from __future__ import annotations

import pytest

from crabka.broker.groups.consumer.embedded import (
    decode_assignment_untrusted,
    decode_subscription_untrusted,
    encode_assignment,
)
from crabka.errors import WireError
from tests.support.coordinators.consumer_groups import catalog_of, topic_id
from tests.support.coordinators.members import subscription

T = topic_id(0)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_assignments_come_back_in_every_version(version: int) -> None:
    catalog = catalog_of(t=3)
    data = encode_assignment({T: {2: 1, 0: 1}, topic_id(9): {0: 1}}, catalog, version)
    assert data[:2] == version.to_bytes(2)
    assert decode_assignment_untrusted(data, catalog) == {T: {0, 2}}
    assert decode_assignment_untrusted(b"", catalog) == {}


def test_subscriptions_report_topics_and_what_is_owned() -> None:
    read = decode_subscription_untrusted(subscription("t", owned={"t": [1], "gone": [0]}))
    assert (read.version, read.topics) == (1, ("t",))
    assert read.owned_in(catalog_of(t=2)) == {T: {1}}


def test_later_versions_are_read_as_the_newest_that_is_known() -> None:
    data = b"\0\x09" + b"\0\0\0\1\0\1t" + b"\xff\xff\xff\xff" + b"\0\0\0\0" + b"\0\0\0\5" + b"\0\1r" + b"more"
    read = decode_subscription_untrusted(data)
    assert (read.version, read.topics, read.rack_id) == (3, ("t",), "r")


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff", b"\0\1\0\0\0\5"])
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_subscription_untrusted(data)
