from __future__ import annotations

from crabka.spark.source.frame_plan import reads_of_frame

RELATION = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"


class Sequence:
    """As much of a Scala sequence as is looked at."""

    def __init__(self, *items: object) -> None:
        self._items = items

    def size(self) -> int:
        return len(self._items)

    def apply(self, index: int) -> object:
        return self._items[index]


class Leaf:
    """A leaf of a plan with options, or without any."""

    def __init__(self, options: dict[str, str] | None) -> None:
        self._options = options

    def getClass(self) -> Leaf:  # noqa: N802 - Java's name
        return self

    def getName(self) -> str:  # noqa: N802 - Java's name
        return "x.LocalRelation" if self._options is None else RELATION

    def options(self) -> Leaf:
        return self

    def asCaseSensitiveMap(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        assert self._options is not None
        return self._options


class Frame:
    """A frame with these leaves."""

    def __init__(self, *leaves: Leaf) -> None:
        self._leaves = leaves

    @property
    def _jdf(self) -> Frame:
        return self

    def queryExecution(self) -> Frame:  # noqa: N802 - Spark's name
        return self

    def analyzed(self) -> Frame:
        return self

    def collectLeaves(self) -> Sequence:  # noqa: N802 - Spark's name
        return Sequence(*self._leaves)


def test_the_options_of_every_read_are_found() -> None:
    frame = Frame(Leaf(None), Leaf({"subscribe": "t", "Tier.Uri": "x"}))
    assert reads_of_frame(frame) == [{}, {"subscribe": "t", "tier.uri": "x"}]  # type: ignore[arg-type]
