"""The lock, the Makefile and pyproject.toml agree."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from crabka.cli.node import up
from crabka.cli.story import story

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def package_name(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    assert match, requirement
    return match.group().lower().replace("_", "-").replace(".", "-")


def run_make(*arguments: str) -> str:
    return subprocess.run(["make", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_the_lock_holds_every_dependency_of_the_project_and_its_extras() -> None:
    wanted = [
        *PROJECT["dependencies"],
        *(line for extra in PROJECT["optional-dependencies"].values() for line in extra),
    ]
    locked = {package_name(line) for line in LOCK.splitlines() if re.match(r"\w", line)}
    assert {package_name(line) for line in wanted} <= locked


def test_every_entry_of_the_lock_is_pinned_with_hashes_and_nothing_names_an_index() -> None:
    entries = re.split(r"\n(?=\S)", LOCK.strip())
    assert [entry for entry in entries if not re.match(r"\S+==\S+.*\\\n    --hash=sha256:[0-9a-f]{64}", entry)] == []
    assert "://" not in LOCK
    assert "--index" not in LOCK


def test_the_lock_is_installed_as_it_is_and_leaves_nothing_to_resolve() -> None:
    # A resolver would meet releases that are newer than the lock, and refuse to install anything.
    assert "--require-hashes --no-deps -r requirements.lock" in run_make("--dry-run", "--always-make", "setup")
    check = subprocess.run([sys.executable, "-m", "pip", "check"], check=False, capture_output=True, text=True)
    assert (check.stdout.strip(), check.returncode) == ("No broken requirements found.", 0)


def test_make_alone_explains_every_target() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony
    explained = re.findall(r"^  make ([\w-]+) +\S", run_make("--silent"), re.MULTILINE)
    assert sorted(explained) == sorted(phony.group(1).split())


def test_once_is_passed_on_to_the_tour() -> None:
    assert "crabka.cli.story --once" in run_make("--dry-run", "run", "ONCE=1")
    assert "--once" not in run_make("--dry-run", "run")


def test_seeds_are_passed_on_to_the_quorum_simulation() -> None:
    assert "tests.support.kraft_sim --seeds 5" in run_make("--dry-run", "sim", "SEEDS=5")
    assert "tests.support.kraft_sim --seed 7" in run_make("--dry-run", "sim", "SEED=7")
    assert "pytest -v tests/sim" in run_make("--dry-run", "sim")


def test_seeds_are_passed_on_to_the_simulation_of_clusters() -> None:
    assert "tests.support.cluster_sim --seeds 5" in run_make("--dry-run", "sim", "CLUSTER_SEEDS=5")
    assert "tests.support.cluster_sim --seed 7 --trace" in run_make("--dry-run", "sim", "CLUSTER_SEED=7")


def test_clean_removes_what_a_tour_leaves_and_git_ignores_it() -> None:
    removed = run_make("--dry-run", "clean").split()
    ignored = (ROOT / ".gitignore").read_text().split()
    for place in (up.DEFAULT_DATA_DIR, story.DEFAULT_TIER_DIR, story.DEFAULT_LAKE_DIR):
        assert Path(place).name in removed
        assert f"{Path(place).name}/" in ignored
