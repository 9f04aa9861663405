"""The example of the README reads a tier."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.tiers.on_disk import write_tier
from tests.support.tiers.planted import two_segments

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.usefixtures("spark")
def test_the_example_counts_the_records_of_a_tier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    [example] = [text for text in examples if 'format("crabka")' in text]
    address = write_tier(tmp_path, two_segments())
    exec(compile(example.replace("s3://bucket/prefix", address), "README.md", "exec"), {})  # noqa: S102 - it is ours
    assert "|        0|   60|" in capsys.readouterr().out
