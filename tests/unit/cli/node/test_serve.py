"""`crabka serve` reads a Kafka user's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabka.cli.node import serve
from crabka.config.server import ServerConfig
from crabka.errors import ConfigError
from tests.support.recorded.files import GOLDEN

FILE = str(GOLDEN / "single" / "server.properties")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[ServerConfig]:
    """The settings of nodes that would have been started."""
    configs: list[ServerConfig] = []

    def run_node(config: ServerConfig, *, format_new: bool) -> int:
        assert not format_new
        configs.append(config)
        return 0

    monkeypatch.setattr(serve, "run_node", run_node)
    monkeypatch.setattr("crabka.cli.node.process.set_up_logging", lambda *_: None)
    return configs


def test_file_with_security_is_refused_unless_it_is_to_be_ignored(started: list[ServerConfig]) -> None:
    unserved = ("--override", "security.providers=example.Provider")
    with pytest.raises(ConfigError, match=r"security\.providers is set"):
        serve.main(["--config", FILE, *unserved])
    assert serve.main(["--config", FILE, *unserved, "--insecure-ignore-security", "--override", "node.id=9"]) == 0
    (config,) = started
    assert (config.node_id, config.log_dirs) == (9, ("d1", "d2"))


def test_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"a=\xff\n")
    with pytest.raises(ConfigError, match="it is not UTF-8 text"):
        serve.read_properties(str(path))
