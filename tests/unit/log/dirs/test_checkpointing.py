from __future__ import annotations

from crabka.ids import TopicPartition
from crabka.log.dirs.checkpoints import read_offset_checkpoint
from crabka.log.dirs.log_manager import LogManager
from crabka.testing import MemoryFileSystem
from tests.support.storage.managers import CONFIG, DIRS, TOPIC_ID, filled, partition, simulate
from tests.support.storage.small import append, make_batch


def test_a_log_of_the_same_name_inherits_no_offsets_from_a_deleted_one() -> None:
    fs = MemoryFileSystem()

    async def first(manager: LogManager) -> None:
        await filled(manager)
        for log in manager:
            log.retention.delete_records_before(15)
        await manager.save_checkpoints()
        for index in range(4):
            manager.delete(partition(index))
            log = manager.create(partition(index), TOPIC_ID, CONFIG)
            append(log, make_batch(2))
            log.flush()
        fs.crash()

    async def second(manager: LogManager) -> None:
        await manager.load(lambda _topic: CONFIG)
        assert [(log.log_start_offset, log.log_end_offset) for log in manager] == [(0, 2)] * 4
        await manager.shutdown()

    simulate(fs, first)
    simulate(fs, second)


def test_a_log_start_outlives_records_that_were_never_flushed() -> None:
    fs = MemoryFileSystem()

    async def first(manager: LogManager) -> None:
        await filled(manager, 1)
        (log,) = manager
        log.retention.delete_records_before(15)
        await manager.save_log_starts([log.log_dir])
        fs.crash()

    async def second(manager: LogManager) -> None:
        await manager.load(lambda _topic: CONFIG)
        (log,) = manager
        assert (log.log_start_offset, log.log_end_offset) == (15, 15)
        await manager.shutdown()

    simulate(fs, first)
    simulate(fs, second)


def test_checkpoints_of_both_dirs_hold_a_log_in_transit() -> None:
    fs = MemoryFileSystem()

    def starts(path: str) -> dict[TopicPartition, int]:
        return read_offset_checkpoint(fs, f"{path}/log-start-offset-checkpoint")

    async def scenario(manager: LogManager) -> None:
        await filled(manager, 1)
        log = manager.get(partition(0))
        assert log is not None
        source = log.log_dir
        (target,) = set(DIRS) - {source}
        log.retention.delete_records_before(3)
        await manager.begin_transit(log, target)
        assert starts(target) == {partition(0): 3}
        log.retention.delete_records_before(5)
        # A save for the dir that it is in saves for the other one, too.
        await manager.save_log_starts([source])
        assert starts(target) == starts(source) == {partition(0): 5}
        await manager.end_transit(log)
        await manager.end_transit(log)
        assert (starts(source), starts(target)) == ({partition(0): 5}, {})

    simulate(fs, scenario)
