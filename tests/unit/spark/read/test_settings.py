from __future__ import annotations

from crabka.spark.read.settings import ReadSettings
from crabka.spark.source.options import SourceOptions
from tests.support.pickling import sent

GIVEN = {"kafka.bootstrap.servers": "x:1", "subscribe": "t"}


def test_columns_are_those_that_the_options_imply() -> None:
    plain = ReadSettings.of(SourceOptions.parse(GIVEN, streaming=False))
    assert plain.columns[-1] == "timestampType"
    headers = ReadSettings.of(SourceOptions.parse(GIVEN | {"includeHeaders": "true"}, streaming=False))
    assert headers.columns[-1] == "headers"
    assert ReadSettings.of(headers.options, ["offset"]).columns == ("offset",)


def test_settings_travel_to_executors() -> None:
    settings = ReadSettings.of(SourceOptions.parse(GIVEN, streaming=False), ["key"], "file:///x")
    assert sent(settings) == settings
