from __future__ import annotations

import pickle

from crabka.spark.lake.errors import LakeError, TopicsFailedError


def test_all_topics_that_failed_are_in_one_line() -> None:
    error = TopicsFailedError({"orders": LakeError("created anew"), "other": OSError("gone")})
    assert str(error) == "2 of the topics failed: orders: created anew; other: gone"
    assert list(error.errors) == ["orders", "other"]
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own
