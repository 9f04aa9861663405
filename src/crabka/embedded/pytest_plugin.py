"""Fixtures for tests that need Kafka, loaded by pytest wherever Crabka is installed.

`crabka_broker` and `crabka_cluster` run in the process of the tests, on real sockets; `crabka_topic` is the name of a
new topic, `crabka_topic_factory` makes more of them. Under xdist each worker has brokers of its own: faults and
journals are objects of one process, and a worker that ends takes nothing from the others. The names of topics hold the
worker and a random part all the same, for runs that share a broker.

How long one lives is a setting: `crabka_broker_scope` (session) and `crabka_cluster_scope` (function). Every test finds
a shared one running, without faults, and with an empty journal. The report of a test that fails has the requests that
its brokers received.

Every pytest run of an environment imports this module, so it imports nothing of the broker.
"""

from __future__ import annotations

import os
import sys
import uuid
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from crabka.embedded import Broker, Cluster, TopicFactory
    from crabka.embedded.settings import Setting
    from crabka.embedded.under_test import UnderTest

Scope = Literal["session", "package", "module", "class", "function"]
Owners = dict[str, "Broker | Cluster"]

DEFAULT_SCOPES: Final[dict[str, Scope]] = {"crabka_broker": "session", "crabka_cluster": "function"}
SCOPES: Final = ("session", "package", "module", "class", "function")
# The brokers and clusters of the fixtures that live longer than one test, by the name of the fixture.
SHARED: Final = pytest.StashKey[Owners]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the settings of the plugin."""
    for fixture, default in DEFAULT_SCOPES.items():
        text = f"how long one {fixture} lives: {', '.join(SCOPES[:-1])} or {SCOPES[-1]} (default: {default})"
        parser.addini(f"{fixture}_scope", text, default=default)


def pytest_configure(config: pytest.Config) -> None:
    """Check the settings. Raises UsageError."""
    config.stash[SHARED] = {}
    for fixture in DEFAULT_SCOPES:
        if (scope := config.getini(f"{fixture}_scope")) not in SCOPES:
            raise pytest.UsageError(f"{fixture}_scope is {', '.join(SCOPES[:-1])} or {SCOPES[-1]}, not {scope!r}")


def scope_of(fixture_name: str, config: pytest.Config) -> Scope:
    """Return how long a broker or a cluster lives."""
    return cast("Scope", config.getini(f"{fixture_name}_scope"))


@pytest.fixture(scope="session")
def crabka_broker_settings() -> Mapping[str, Setting]:
    """Kafka's settings for `crabka_broker` and for each node of `crabka_cluster`; override it to change them."""
    return {}


@pytest.fixture(scope=scope_of)
def crabka_broker(request: pytest.FixtureRequest, crabka_broker_settings: Mapping[str, Setting]) -> Iterator[Broker]:
    """A running broker."""
    from crabka.embedded import Broker

    with Broker(crabka_broker_settings) as broker:
        yield from _shared(request, broker)


@pytest.fixture(scope=scope_of)
def crabka_cluster(request: pytest.FixtureRequest, crabka_broker_settings: Mapping[str, Setting]) -> Iterator[Cluster]:
    """A running cluster of three nodes."""
    from crabka.embedded import Cluster

    with Cluster(nodes=3, settings=crabka_broker_settings) as cluster:
        yield from _shared(request, cluster)


@pytest.fixture
def crabka_topic_factory(request: pytest.FixtureRequest) -> Iterator[TopicFactory]:
    """Makes topics for one test: on the cluster if the test uses `crabka_cluster` only, else on `crabka_broker`."""
    from crabka.embedded import TopicFactory

    names = set(request.fixturenames)
    fixture = "crabka_cluster" if "crabka_cluster" in names and "crabka_broker" not in names else "crabka_broker"
    owner: Broker | Cluster = request.getfixturevalue(fixture)
    parts = (request.node.name, os.environ.get("PYTEST_XDIST_WORKER", ""), uuid.uuid4().hex[:8])
    factory = TopicFactory(owner, "-".join(part for part in parts if part))
    yield factory
    # One that ends with the test takes its topics along.
    if fixture in request.config.stash[SHARED]:
        factory.delete()


@pytest.fixture
def crabka_topic(crabka_topic_factory: TopicFactory) -> str:
    """The name of a new topic with one partition."""
    return crabka_topic_factory()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give a test shared brokers as new ones."""
    for owner in item.config.stash[SHARED].values():
        owner.restore()
        owner.journal.clear()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End the faults of a test before its fixtures clean up."""
    for owner in item.config.stash[SHARED].values():
        owner.restore()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the brokers of a failed test received."""
    report = yield
    # Without this module the test cannot have had a broker.
    if report.failed and "crabka.embedded.under_test" in sys.modules:
        for title, owner in _brokers_of(item, call).items():
            report.sections.append((f"requests to {title}", _requests(owner)))
    return report


def _shared(request: pytest.FixtureRequest, owner: Any) -> Iterator[Any]:
    shared = request.config.stash[SHARED]
    if request.scope == "function" or request.fixturename is None:
        yield owner
        return
    shared[request.fixturename] = owner
    try:
        yield owner
    finally:
        del shared[request.fixturename]


def _brokers_of(item: pytest.Item, call: pytest.CallInfo[None]) -> dict[str, UnderTest]:
    """Return the brokers of fixtures, and those in variables of the functions that failed."""
    from crabka.embedded.under_test import UnderTest

    places: list[Iterable[tuple[str, Any]]] = [(getattr(item, "funcargs", None) or {}).items()]
    if call.excinfo is not None:
        places += [
            entry.locals.items()
            for entry in call.excinfo.traceback
            # The variables of the library itself, such as `self`, have no names that the author of the test knows.
            if not entry.frame.f_globals.get("__name__", "").startswith("crabka.")
        ]
    found: dict[int, tuple[str, UnderTest]] = {}
    for place in places:
        for name, value in place:
            if isinstance(value, UnderTest):
                found.setdefault(id(value), (name, value))
    return dict(found.values())


def _requests(owner: UnderTest) -> str:
    try:
        return str(owner.journal)
    except RuntimeError as error:
        return str(error)
