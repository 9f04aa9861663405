"""Which authorizer a node has."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from crabka.config.java_classes import STANDARD_AUTHORIZER
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from crabka.protocol.apis import ApiKey
from crabka.security.standard_authorizer import StandardAuthorizer
from crabka.serving.access.feed import make_authorizer
from tests.support.security.guarded_node import guarded_node

HERE = __name__


class OpenAuthorizer:
    """A third party's authorizer: everybody may do everything but see the topic `closed`."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.standard = StandardAuthorizer(settings)
        self.load = self.standard.load
        self.change = self.standard.change
        self.explain = self.standard.explain

    def allows(self, _requester: object, _operation: object, _resource_type: object, name: str) -> bool:
        return name != "closed"

    def allows_any(self, _requester: object, _operation: object, _resource_type: object) -> bool:
        return True


def broken(_settings: Mapping[str, str]) -> object:
    raise RuntimeError("no license")


def config(name: str, **more: str) -> ServerConfig:
    base = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "h:9093",
        "log.dirs": "/d",
    }
    settings = {key.replace("_", "."): value for key, value in more.items()}
    return ServerConfig.from_properties({**base, "authorizer.class.name": name, **settings})[0]


def test_there_is_none_unless_a_setting_names_one() -> None:
    assert make_authorizer(config("")) is None
    assert isinstance(make_authorizer(config(STANDARD_AUTHORIZER)), StandardAuthorizer)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no.such.module:Class", "no.such.module:Class cannot be imported: No module named 'no'"),
        (f"{HERE}:Missing", "cannot be imported: .*Missing"),
        (f"{HERE}:broken", "cannot be made: RuntimeError: no license"),
        ("builtins:dict", "builtins:dict is no Authorizer: it has no allows, allows_any, explain, load, change"),
    ],
)
def test_a_class_that_cannot_be_used_is_named(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"authorizer.class.name: .*{reason}"):
        make_authorizer(config(name))


def test_bad_super_users_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"super\.users: expected .* but got admin; write User:name"):
        make_authorizer(config(STANDARD_AUTHORIZER, super_users="admin"))


def test_an_authorizer_of_ones_own_decides() -> None:
    with guarded_node({"authorizer.class.name": f"{HERE}:OpenAuthorizer"}) as guarded:
        answer = guarded.call("bob", "metadata of all", ApiKey.METADATA, 4)
        names = {topic.name for topic in answer.topics}
        assert "open" in names
        assert "closed" not in names
