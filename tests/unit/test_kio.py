from __future__ import annotations

import subprocess
import sys

import pytest

from crabka._kio import hidden_module


def test_a_node_starts_without_loading_hypothesis_which_stays_importable() -> None:
    program = (
        "import sys, crabka.errors, crabka.protocol.apis\n"
        "assert 'hypothesis' not in sys.modules\n"
        "import kio.static._phantom as phantom\n"
        "assert phantom.hypothesis is None\n"
        "import hypothesis.strategies\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_way_into_the_protocol_package_hides_hypothesis() -> None:
    program = "import sys, crabka.protocol.length_guard\nassert 'hypothesis' not in sys.modules\n"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_hidden_module_cannot_be_imported_inside_the_block_only() -> None:
    sys.modules.pop("colorsys", None)
    with hidden_module("colorsys"), pytest.raises(ImportError):
        __import__("colorsys")
    assert __import__("colorsys") is sys.modules["colorsys"]


def test_a_module_that_is_loaded_is_not_hidden() -> None:
    with hidden_module("json"):
        assert __import__("json") is sys.modules["json"]
