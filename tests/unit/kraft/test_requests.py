from __future__ import annotations

from crabka.kraft.messages import DescribeRequest, VersionsRequest
from crabka.kraft.requests import RequestTracker


def test_a_peer_is_asked_one_question_of_a_kind_at_a_time() -> None:
    requests = RequestTracker()
    request_id = requests.start(2, VersionsRequest())
    assert not requests.is_ready(2, VersionsRequest)
    assert requests.is_ready(2, DescribeRequest)
    assert requests.is_ready(3, VersionsRequest)
    assert requests.is_under_way(VersionsRequest)
    sent = requests.finish(request_id)
    assert sent is not None
    assert sent.node_id == 2
    assert requests.is_ready(2, VersionsRequest)
    assert requests.finish(request_id) is None


def test_a_pause_holds_a_question_back_until_it_ends() -> None:
    requests = RequestTracker()
    sent = requests.finish(requests.start(2, VersionsRequest()))
    assert sent is not None
    requests.pause(sent, 50)
    assert requests.next_retry_ms == 50
    requests.end_pauses(49)
    assert not requests.is_ready(2, VersionsRequest)
    requests.end_pauses(50)
    assert requests.is_ready(2, VersionsRequest)
    assert requests.next_retry_ms is None


def test_a_new_role_forgets_what_an_old_one_asked() -> None:
    requests = RequestTracker()
    old = requests.start(2, VersionsRequest())
    requests.reset()
    assert requests.finish(old) is None
    assert requests.start(2, VersionsRequest()) != old
