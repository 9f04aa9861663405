"""A child process lives as long as its parent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.nodes.process import wait_until

# A parent with a broker in a child process, that says where and waits.
PARENT = """
import sys
from crabka.embedded.broker import Broker
broker = Broker(process=True).start()
print(broker.bootstrap_servers, broker._node.pid, broker.data_dir.parent, flush=True)
input()
"""


def test_a_child_and_its_directory_are_gone_when_the_parent_is_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as parent:
        assert parent.stdout is not None
        address, pid, directory = parent.stdout.readline().split()
        assert Path(directory).is_dir()
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), 60) as connection:
            parent.send_signal(signal.SIGKILL)
            # The connection ends with the child, which removes the directory before.
            assert connection.recv(1) == b""
    assert not Path(directory).exists()
    wait_until(lambda: not _is_alive(int(pid)), "the child has ended")


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
