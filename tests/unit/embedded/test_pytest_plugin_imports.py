"""Every pytest run of an environment with Crabka loads its plugin, so that one must load nothing that costs time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Modules of Python and pytest are loaded with and without the plugin; these are the plugin's own.
OWN = {"crabka", "crabka.embedded", "crabka.embedded.pytest_plugin", "crabka.lazy_exports"}
LIST_MODULES = """
import sys

import pytest


class Modules:
    def pytest_sessionfinish(self) -> None:
        with open(sys.argv[1], "w") as file:
            file.write("\\n".join(sys.modules))


sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[2:]], [Modules()]))
"""


def test_a_run_without_its_fixtures_loads_no_broker(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text("def test_nothing(): ...\n")
    with_plugin = loaded_modules(tmp_path)
    without_plugin = loaded_modules(tmp_path, "-p", "no:crabka")
    assert with_plugin - without_plugin == OWN


def loaded_modules(directory: Path, *arguments: str) -> set[str]:
    command = [sys.executable, "-c", LIST_MODULES, str(directory / "modules"), *arguments]
    subprocess.run(command, cwd=directory, check=True, env=os.environ | {"PYTEST_ADDOPTS": ""})
    return set((directory / "modules").read_text().split())
