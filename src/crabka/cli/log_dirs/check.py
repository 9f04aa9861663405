"""Rows of `crabka log-dirs check`: the state of checks from the metrics of brokers, and damage in directories.

The metrics of a running broker are read from its `crabka.http.listener`. A directory is only read, also while its
node runs; nothing is written.
"""

from __future__ import annotations

import re
import urllib.request
from typing import TYPE_CHECKING, Final

from crabka.cli.output import Column, Kind
from crabka.errors import ConfigError
from crabka.log.healing.offline_check import check_directory, log_directories

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabka.cli.output import Row
    from crabka.log.healing.offline_check import Problem
    from crabka.ports import FileSystem

STATE_COLUMNS: Final = (
    "broker",
    "logs_checked",
    "logs",
    Column("pass_started_timestamp", "pass started", yields=2),
    Column("last_full_pass_timestamp", "last full pass", yields=3),
    Column("bytes_checked", "checked", kind=Kind.SIZE),
    Column("repaired_ranges", "repaired", yields=1),
    Column("repaired_files", yields=4),
    Column("damaged_ranges", "damaged"),
)
DAMAGE_COLUMNS: Final = ("broker", "topic", "partition", "first_offset", "last_offset", Column("file", yields=1))
PROBLEM_COLUMNS: Final = ("log", "file", "first_offset", "last_offset", "reason")
_TIMEOUT_S: Final = 10
_SAMPLE: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_DAMAGED: Final = "crabka_log_damaged_offsets"

Sample = tuple[str, dict[str, str], float]


def fetch_metrics(address: str, timeout_s: float = _TIMEOUT_S) -> str:
    """Return the metrics of a broker. Raises ConfigError if they cannot be read."""
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=timeout_s) as answer:
            return str(answer.read().decode())
    except OSError as error:
        raise ConfigError(f"cannot read the metrics on {address}: {error}") from error


def parse_samples(text: str) -> Iterator[Sample]:
    """Yield name, labels and value of each sample in Prometheus text."""
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is not None:
            labels = {name: value.replace('\\"', '"') for name, value in _LABEL.findall(match[2] or "")}
            yield match[1], labels, float(match[3])


def state_row(broker: int, samples: list[Sample]) -> Row:
    """Return the progress of the checks of a broker."""
    values = {name.removeprefix("crabka_log_scrub_"): value for name, labels, value in samples if not labels}
    started, ended = values.get("pass_start_seconds", -1), values.get("last_pass_seconds", -1)
    return {
        "broker": broker,
        "logs_checked": int(values.get("pass_logs_done", 0)),
        "logs": int(values.get("pass_logs", 0)),
        "pass_started_timestamp": round(started * 1000) if started > 0 else None,
        "last_full_pass_timestamp": round(ended * 1000) if ended > 0 else None,
        "bytes_checked": int(values.get("bytes_total", 0)),
        "repaired_ranges": int(values.get("repaired_ranges_total", 0)),
        "repaired_files": int(values.get("repaired_files_total", 0)),
        "damaged_ranges": sum(name == _DAMAGED for name, _, _ in samples),
    }


def damage_rows(broker: int, samples: list[Sample]) -> list[Row]:
    """Return the offsets that a broker cannot serve."""
    return [
        {
            "broker": broker,
            "topic": labels["topic"],
            "partition": int(labels["partition"]),
            "first_offset": int(labels["first_offset"]),
            "last_offset": int(labels["last_offset"]),
            "file": labels["file"],
        }
        for name, labels, _ in samples
        if name == _DAMAGED
    ]


def directory_problems(fs: FileSystem, log_dir: str) -> Iterator[Row]:
    """Yield the damage in the logs of a log dir. Raises ConfigError for another directory."""
    try:
        names = log_directories(fs, log_dir)
    except OSError as error:
        raise ConfigError(f"{log_dir}: {error}") from error
    for name in names:
        try:
            for problem in check_directory(fs, f"{log_dir}/{name}"):
                yield _problem_row(problem)
        except FileNotFoundError:
            # A running node removed a segment during the check.
            continue


def _problem_row(problem: Problem) -> Row:
    is_data = problem.offset >= 0
    # A range at the end of the last segment ends at the log end, which the file does not contain.
    is_bounded = is_data and not problem.is_at_end
    return {
        "log": problem.log,
        "file": problem.file,
        "first_offset": problem.offset if is_data else None,
        "last_offset": problem.end_offset - 1 if is_bounded else None,
        "reason": problem.reason,
    }
