"""The Python examples of the README run in the state that it describes: with what it says is installed, and no more."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

README = Path(__file__).parents[2] / "README.md"
EXAMPLES = [text for text in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL) if "Broker" in text]

# Runs a file as if only some distributions were installed: everything else cannot be imported.
RUN = """
import runpy
import sys

missing = set(sys.argv[1].split(","))


class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, NotInstalled())
if sys.argv[3:]:
    import pytest

    sys.exit(pytest.main([sys.argv[2], *sys.argv[3:]]))
runpy.run_path(sys.argv[2], run_name="__main__")
"""


def test_the_first_example_needs_only_crabka(tmp_path: Path) -> None:
    first, _ = EXAMPLES
    (tmp_path / "example.py").write_text(first)
    result = run_with(["crabka"], tmp_path / "example.py")
    assert result.returncode == 0, result.stderr


def test_the_second_example_needs_what_is_named_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, second = EXAMPLES
    text = README.read_text()
    [named] = re.findall(r"`pip install ([\w -]+)`", text[text.index(EXAMPLES[0]) : text.index(second)])
    (tmp_path / "test_example.py").write_text(second)
    # Plugins of what is not installed would be found; that of Crabka is loaded by its entry point otherwise.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    options = ["-q", "-p", "no:cacheprovider", "-p", "crabka.embedded.pytest_plugin"]
    result = run_with(["crabka", *named.split()], tmp_path / "test_example.py", *options)
    assert "1 passed" in result.stdout, result.stdout + result.stderr


@pytest.mark.parametrize("name", ["confluent_kafka", "pytest"])
def test_what_is_not_installed_is_missing(tmp_path: Path, name: str) -> None:
    (tmp_path / "example.py").write_text(f"import {name}\n")
    assert f"No module named '{name}'" in run_with(["crabka"], tmp_path / "example.py").stderr


def run_with(names: list[str], file: Path, *pytest_options: str) -> subprocess.CompletedProcess[str]:
    installed = closure(names)
    modules = packages_distributions()
    missing = [module for module, owners in modules.items() if not {normal(owner) for owner in owners} & installed]
    command = [sys.executable, "-c", RUN, ",".join(missing), str(file), *pytest_options]
    return subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=False)


def closure(names: list[str]) -> set[str]:
    """Return what pip installs for some distributions, without extras."""
    found: set[str] = set()
    left = [normal(name) for name in names]
    while left:
        name = left.pop()
        if name in found:
            continue
        try:
            requirements = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        found.add(name)
        parsed = (Requirement(each) for each in requirements)
        left += [normal(each.name) for each in parsed if each.marker is None or each.marker.evaluate({"extra": ""})]
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
