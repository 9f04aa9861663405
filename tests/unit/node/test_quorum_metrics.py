from __future__ import annotations

from crabka.kraft.log_view import OffsetAndEpoch
from crabka.node.quorum_metrics import collect_quorum
from crabka.ports import Runtime
from crabka.quorum.raft.quorum import RaftQuorum
from crabka.quorum.snapshots.files import SnapshotId
from tests.support.faults.rotting import flip
from tests.support.quorum.node import LOG_DIRECTORY, formatted_disk, open_quorum, run_node


def values(quorum: RaftQuorum) -> dict[str, float]:
    return {sample.name: sample.value for metric in collect_quorum(quorum) for sample in metric.samples}


def test_cuts_losses_and_repairs_are_counted() -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> dict[str, float]:
        quorum = await open_quorum(runtime)
        quorum.core._state.lost_end = OffsetAndEpoch(99, 1)
        found = values(quorum)
        quorum.core._state.lost_end = None
        await quorum.close()
        return found

    names = ("crabka_metadata_log_cuts_total", "crabka_metadata_log_cut_bytes_total")
    waits = "crabka_metadata_log_waits_for_lost_entries"
    repairs = "crabka_quorum_state_repairs_total"
    assert run_node(fs, main).items() >= {names[0]: 0, names[1]: 0, waits: 1, repairs: 0}.items()
    fs.rot(f"{LOG_DIRECTORY}/quorum-state", 20)
    file = fs.open(f"{LOG_DIRECTORY}/00000000000000000000.log")
    file.pwritev([b"torn"], file.size())
    file.close()
    assert run_node(fs, main).items() >= {names[0]: 1, names[1]: 4, waits: 1, repairs: 1}.items()


def test_what_is_set_aside_found_and_healed_is_counted() -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> dict[str, float]:
        quorum = await open_quorum(runtime)
        flip(fs, f"{LOG_DIRECTORY}/partition.metadata", 3)
        await quorum._driver.scrubber.check_now()
        found = values(quorum)
        await quorum.close()
        return found

    found = run_node(fs, main)
    name = "crabka_metadata_log"
    assert found.items() >= {f"{name}_damage_found_total": 1, f"{name}_damage_repaired_total": 1}.items()
    assert (found[f"{name}_scrub_passes_total"], found[f"{name}_set_aside_snapshots_total"]) == (1, 0)
    assert found[f"{name}_scrub_bytes_total"] > 100
    flip(fs, f"{LOG_DIRECTORY}/{SnapshotId(0, 0).file_name}", 70)
    assert run_node(fs, main)[f"{name}_set_aside_snapshots_total"] == 1
