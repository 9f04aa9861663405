"""Rules for every test: nothing may leak, hypothesis runs by profile, random numbers are replayable."""

from __future__ import annotations

import gc
import random
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from crabka.runtime import new_event_loop
from tests.support.leaks import describe_leaks, take_snapshot, watch_pending_tasks
from tests.support.order import put_slow_files_first
from tests.support.scale import soaking
from tests.support.seeds import base_seed, replay_hint, rng_for
from tests.support.time_limit import HardLimit

TESTS = Path(__file__).parent

# Other clients and the JVM keep threads and descriptors that are not ours to close.
FOREIGN_DIRECTORIES = ("interop", "spark")
FAILED = pytest.StashKey[bool]()

settings.register_profile(
    "ci",
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
settings.register_profile(
    "soak",
    max_examples=3_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the outputs of script tests into their files")


def pytest_configure(config: pytest.Config) -> None:
    base_seed()
    config.pluginmanager.register(HardLimit(), "crabka-hard-limit")
    # libuv opens one pipe for signals with the first loop and keeps it: before any test takes stock of descriptors.
    new_event_loop().close()
    settings.load_profile("soak" if soaking() else "ci")


def pytest_report_header(config: pytest.Config) -> str:
    return f"crabka: {'soak' if soaking() else 'normal'} run, CRABKA_SEED={base_seed()}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "interop" in _test_directories(item):
            item.add_marker(pytest.mark.interop)
        if item.get_closest_marker("soak") and not soaking():
            item.add_marker(pytest.mark.skip(reason="runs under `make soak`"))
    put_slow_files_first(items)


def pytest_collection_finish() -> None:
    """Keep what the imports of all tests have made out of later collections, which would walk through it each time."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let the interpreter collect everything at its exit, as libraries that count their objects expect."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
        if "rng" in getattr(item, "fixturenames", ()):
            report.sections.append(("replay", replay_hint(item.nodeid)))
    return report


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether script tests accept the outputs that they see."""
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of this test; a failure prints the command that replays them."""
    return rng_for(request.node.nodeid)


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves asyncio tasks, descriptors or threads behind."""
    item = request.node
    if item.get_closest_marker("allow_leaks") or _test_directories(item) & set(FOREIGN_DIRECTORIES):
        yield
        return
    before = take_snapshot()
    with watch_pending_tasks() as pending:
        yield
    if item.stash.get(FAILED, False):
        return  # the failure explains what is left behind
    leaks = [*pending, *describe_leaks(before)]
    if leaks:
        pytest.fail("left behind:\n  " + "\n  ".join(leaks), pytrace=False)


def _test_directories(item: pytest.Item) -> set[str]:
    return set(item.path.relative_to(TESTS).parts[:-1]) if item.path.is_relative_to(TESTS) else set()
