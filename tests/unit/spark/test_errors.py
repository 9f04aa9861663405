from __future__ import annotations

from crabka.spark.errors import DataLossError


def test_a_loss_says_how_to_go_on() -> None:
    assert (
        str(DataLossError("offset 3 is gone")) == "offset 3 is gone; set failOnDataLoss to false to read what there is"
    )
