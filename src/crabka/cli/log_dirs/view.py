"""Rows of `crabka log-dirs list`: log dirs with their free space, and the moves in progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from crabka.cli.output import Column, Row
from crabka.clients.admin.admin_types import LogDirDescription
from crabka.ids import TopicPartition

DIR_COLUMNS: Final = (
    "broker",
    "dir",
    "state",
    "partitions",
    "size_bytes",
    "free_bytes",
    Column("total_bytes", "of", yields=1),
    Column("moving_in", yields=2),
)
MOVE_COLUMNS: Final = (
    Column("broker", yields=2),
    "topic",
    "partition",
    Column("from", yields=3),
    "to",
    "copied_bytes",
    Column("size_bytes", "of"),
    Column("lag", yields=4),
    Column("bytes_per_s", yields=1),
)
ONLINE, CORDONED, OFFLINE = "online", "cordoned", "offline"

BrokerDirs = Mapping[int, Sequence[LogDirDescription]]


class RunningMove(NamedTuple):
    """A replica that is moving to another log dir of its broker."""

    broker: int
    partition: TopicPartition
    # None while the replica cannot be seen, because its dir failed.
    source: str | None
    target: str
    copied_bytes: int
    size_bytes: int
    lag: int

    @property
    def share(self) -> float:
        """The share that is done, from 0 to 1."""
        return min(self.copied_bytes / self.size_bytes, 1.0) if self.size_bytes else 1.0


def running_moves(dirs: BrokerDirs) -> list[RunningMove]:
    """Return the moves that brokers report, sorted."""
    moves = []
    for broker, described in dirs.items():
        current = {
            key: (each.path, replica.size_bytes)
            for each in described
            for key, replica in each.replicas.items()
            if not replica.is_future
        }
        for each in described:
            for key, replica in each.replicas.items():
                if replica.is_future:
                    source, size_bytes = current.get(key, (None, replica.size_bytes))
                    partition = TopicPartition(*key)
                    moves.append(
                        RunningMove(
                            broker, partition, source, each.path, replica.size_bytes, size_bytes, replica.offset_lag
                        )
                    )
    return sorted(moves)


def dir_rows(dirs: BrokerDirs) -> list[Row]:
    """Return a row for each log dir; values of a failed dir are None."""
    return [_dir_row(broker, each) for broker, described in sorted(dirs.items()) for each in described]


def _dir_row(broker: int, described: LogDirDescription) -> Row:
    known = described.is_online
    current = [replica for replica in described.replicas.values() if not replica.is_future]
    return {
        "broker": broker,
        "dir": described.path,
        "state": OFFLINE if not known else CORDONED if described.is_cordoned else ONLINE,
        "partitions": len(current) if known else None,
        "size_bytes": sum(replica.size_bytes for replica in current) if known else None,
        "free_bytes": described.usable_bytes if described.usable_bytes >= 0 else None,
        "total_bytes": described.total_bytes if described.total_bytes >= 0 else None,
        "moving_in": len(described.replicas) - len(current),
    }


def move_rows(moves: Iterable[RunningMove], rates: Mapping[tuple[int, TopicPartition], float]) -> list[Row]:
    """Return a row for each move; `rates` has the bytes per second of the moves that were seen twice."""
    return [
        {
            "broker": move.broker,
            "topic": move.partition.topic,
            "partition": move.partition.partition,
            "from": move.source,
            "to": move.target,
            "copied_bytes": move.copied_bytes,
            "size_bytes": move.size_bytes,
            "lag": move.lag,
            "bytes_per_s": _rounded(rates.get((move.broker, move.partition))),
        }
        for move in moves
    ]


def _rounded(rate: float | None) -> int | None:
    return None if rate is None else round(rate)


def move_rates(
    before: Iterable[RunningMove], after: Iterable[RunningMove], elapsed_s: float
) -> dict[tuple[int, TopicPartition], float]:
    """Return the speed of each move that was seen twice."""
    copied = {(move.broker, move.partition): move.copied_bytes for move in before}
    if elapsed_s <= 0:
        return {}
    return {
        key: max(move.copied_bytes - copied[key], 0) / elapsed_s
        for move in after
        if (key := (move.broker, move.partition)) in copied
    }
