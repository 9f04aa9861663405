"""Where Crabka's time goes: py-spy beside a running node, as a flame graph and as a list of functions."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.report import RESULTS

RATE = "250"
LISTED = 40


@contextmanager
def profiled(pid: int) -> Iterator[None]:
    """Sample the process until the block ends; writes profile.svg and profile.txt below bench/results."""
    RESULTS.mkdir(exist_ok=True)
    folded = RESULTS / "profile.folded"
    recorders = [_record(pid, folded, "raw"), _record(pid, RESULTS / "profile.svg", "flamegraph")]
    try:
        yield
    finally:
        for recorder in recorders:
            recorder.send_signal(signal.SIGINT)
        for recorder in recorders:
            recorder.wait(60)
    (RESULTS / "profile.txt").write_text(summary(folded.read_text().splitlines()))
    folded.unlink()


def _record(pid: int, path: Path, style: str) -> subprocess.Popen[bytes]:
    spy = str(Path(sys.executable).parent / "py-spy")
    options = ["--pid", str(pid), "--output", str(path), "--format", style, "--rate", RATE, "--duration", "unlimited"]
    return subprocess.Popen([spy, "record", "--nonblocking", "--function", *options], stdout=subprocess.DEVNULL)


def summary(folded: Iterable[str]) -> str:
    """Functions by their own share and by their share with callees, from folded stacks."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    samples = 0
    for line in folded:
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        samples += int(count)
        own[frames[-1]] += int(count)
        total.update(dict.fromkeys(frames, int(count)))
    lines = [f"{samples} samples"]
    for title, shares in (("own time", own), ("time with callees", total)):
        lines += ["", title]
        lines += [f"{count / samples:7.1%}  {name}" for name, count in shares.most_common(LISTED)]
    return "\n".join(lines) + "\n"
