"""Reports of members."""

from __future__ import annotations

from crabka.broker.groups.consumer.messages import ConsumerHeartbeat


def test_a_report_is_full_if_it_reports_everything() -> None:
    def report(**fields: object) -> ConsumerHeartbeat:
        return ConsumerHeartbeat(reply=1, member_id="m", **{"member_epoch": 2, **fields})  # type: ignore[arg-type]

    assert report(member_epoch=0).is_full
    assert report(rebalance_timeout_ms=1, topic_names=(), owned={}).is_full
    assert report(rebalance_timeout_ms=1, topic_regex="x", owned={}).is_full
    assert not report(rebalance_timeout_ms=1, topic_regex="x").is_full
    assert not report(topic_names=(), owned={}).is_full
