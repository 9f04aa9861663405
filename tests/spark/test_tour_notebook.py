"""The notebook of the tour: its cells run in order and print what it shows."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tour.ipynb"


def test_the_cells_print_what_the_notebook_shows(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    request.getfixturevalue("spark")
    scope: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    try:
        for cell in cells:
            printed = io.StringIO()
            source = "".join(cell["source"])
            with contextlib.redirect_stdout(printed):
                exec(compile(source, f"{NOTEBOOK.name}:{cell['id']}", "exec"), scope)  # noqa: S102 - our own text
            shown = "".join(text for output in cell["outputs"] for text in output["text"])
            assert printed.getvalue().strip() == shown.strip(), source
    finally:
        if (broker := scope.get("broker")) is not None:
            broker.stop()
    assert cells
