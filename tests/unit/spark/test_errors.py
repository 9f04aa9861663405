from __future__ import annotations

import pytest

from crabka.spark.errors import DataLossError, TopicChangedError, lose
from crabka.spark.options.source_options import SourceOptions


def test_a_loss_says_how_to_go_on() -> None:
    assert (
        str(DataLossError("offset 3 is gone")) == "offset 3 is gone; set failOnDataLoss to false to read what there is"
    )


def options(**more: str) -> SourceOptions:
    return SourceOptions.parse({"kafka.bootstrap.servers": "h:1", "subscribe": "t"} | more, streaming=False)


@pytest.mark.parametrize("kind", [DataLossError, TopicChangedError])
def test_a_loss_is_an_error_that_says_what_to_set(kind: type[DataLossError]) -> None:
    with pytest.raises(kind, match=r"^offset 5 is gone; set failOnDataLoss to false to read what there is$"):
        lose(options(), kind("offset 5 is gone"))


def test_an_accepted_loss_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    lose(options(failOnDataLoss="false"), DataLossError("offset 5 is gone"))
    assert caplog.messages == ["offset 5 is gone; continuing, because failOnDataLoss is false"]
