"""What a DataFrame of a classic session asks of the source: options and filters, out of Spark's own plan of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from crabka.spark.plan.filters import PushedFilters, pushed_filters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RELATION: Final = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"
_FILTER: Final = "org.apache.spark.sql.catalyst.plans.logical.Filter"


def reads_of_frame(frame: DataFrame) -> list[dict[str, str]]:
    """Return the options of every read in a frame, their names in lower case."""
    return [_options(leaf) for leaf in _each(_plan(frame).analyzed().collectLeaves())]


def filters_of_frame(frame: DataFrame) -> PushedFilters:
    """Return the bounds that the filters of a frame set."""
    jvm: Any = frame.sparkSession._jvm
    # A Scala object is the only instance of a class with a dollar behind its name.
    strategies = getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSourceStrategy$")
    strategy = getattr(strategies, "MODULE$")
    translated = []
    for condition in _conditions(_plan(frame).optimizedPlan()):
        found = strategy.translateFilter(condition, True)  # noqa: FBT003 - Java has no names
        if found.isDefined():
            translated.append(_as_python(found.get()))
    return pushed_filters([each for each in translated if each is not None])


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution()


def _options(leaf: Any) -> dict[str, str]:
    if leaf.getClass().getName() != _RELATION:
        return {}
    return {str(name).lower(): str(value) for name, value in leaf.options().asCaseSensitiveMap().items()}


def _conditions(node: Any) -> Iterator[Any]:
    """Yield what filters anywhere in a plan demand, apart where they are joined by and."""
    if node.getClass().getName() == _FILTER:
        yield from _split(node.condition())
    for child in _each(node.children()):
        yield from _conditions(child)


def _split(condition: Any) -> Iterator[Any]:
    if condition.getClass().getSimpleName() == "And":
        yield from _split(condition.left())
        yield from _split(condition.right())
    else:
        yield condition


def _as_python(found: Any) -> Any | None:
    """Return a comparison as the class that Spark would push down, None for other filters."""
    from pyspark.sql import datasource

    kind = getattr(datasource, found.getClass().getSimpleName(), None)
    names = {method.getName() for method in found.getClass().getMethods()}
    if kind is None or not {"attribute", "value"} <= names:
        return None
    return kind((found.attribute(),), _value(found.value()))


def _value(value: Any) -> Any:
    if hasattr(value, "toInstant"):
        value = value.toInstant()
    if hasattr(value, "getEpochSecond"):
        return _EPOCH + timedelta(seconds=value.getEpochSecond(), microseconds=value.getNano() // 1000)
    return value


def _each(sequence: Any) -> Iterator[Any]:
    for index in range(sequence.size()):
        yield sequence.apply(index)
