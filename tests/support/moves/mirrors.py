"""A log in memory and a copy of it in another log dir, worked on by hand."""

from __future__ import annotations

from crabka.broker.logdirs.future_log import MAX_STEP_BYTES, FutureLog
from crabka.config.topic import TopicConfig
from crabka.log.partition.partition_log import PartitionLog
from crabka.testing import MemoryFileSystem
from tests.support.storage.small import LOG_DIR, LOG_PATH, TOPIC_PARTITION, make_context, open_test_log

TARGET_DIR = "/other"
COPY_PATH = f"{TARGET_DIR}/{TOPIC_PARTITION}.{'0' * 32}-future"
SMALL_SEGMENTS = TopicConfig(segment_bytes=700, file_delete_delay_ms=0)


class Mirror:
    """A log with small segments and its copy."""

    def __init__(self, *, config: TopicConfig = SMALL_SEGMENTS, disk: MemoryFileSystem | None = None) -> None:
        """A disk is passed to continue with what an earlier run left."""
        self.memory = disk or MemoryFileSystem()
        for path in (LOG_DIR, TARGET_DIR):
            self.memory.makedirs(path)
        self.memory.fsync_dir("/")
        self.log: PartitionLog = open_test_log(make_context(self.memory), config)
        self.copy = self.new_copy()

    def new_copy(self) -> FutureLog:
        """Begin to copy, or go on with what is there."""
        copy = FutureLog(self.memory, self.log, COPY_PATH)
        copy.open()
        self.log.moving.mirror = copy
        return copy

    def step(self, max_bytes: int = MAX_STEP_BYTES) -> bool:
        """Do the next step; return whether there was one."""
        step = self.copy.next_step(max_bytes)
        if step is not None:
            step.run()
            self.copy.note(step)
        return step is not None

    def catch_up(self, max_bytes: int = MAX_STEP_BYTES) -> int:
        """Do all steps and sync; return how many steps there were."""
        count = 0
        while self.step(max_bytes):
            count += 1
        self.sync()
        return count

    def sync(self) -> None:
        """Make the copy durable."""
        step = self.copy.sync_step()
        step.run()
        self.copy.note(step)

    def files(self, directory: str) -> dict[str, bytes]:
        """Return the files of a log by name."""
        found = {}
        for name in self.memory.listdir(directory):
            file = self.memory.open(f"{directory}/{name}", read_only=True)
            found[name] = file.pread(file.size(), 0)
            file.close()
        return found

    def assert_same(self) -> None:
        """The copy has the batches, and all else that the log needs."""
        self.log.flush()
        source, copy = self.files(LOG_PATH), self.files(COPY_PATH)
        active = f"{self.log.segment_base_offsets[-1]:020d}"
        expected = {
            name: data
            for name, data in source.items()
            if not name.endswith(".deleted") and not (name.startswith(active) and name.endswith("index"))
        }
        found = {name: data for name, data in copy.items() if not (name.startswith(active) and name.endswith("index"))}
        assert found == expected
