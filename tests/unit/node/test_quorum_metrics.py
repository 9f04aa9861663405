from __future__ import annotations

from crabka.kraft.log_view import OffsetAndEpoch
from crabka.node.quorum_metrics import collect_quorum
from crabka.ports import Runtime
from tests.support.quorum_node import LOG_DIRECTORY, formatted_disk, open_quorum, run_node


def test_cuts_losses_and_repairs_are_counted() -> None:
    fs = formatted_disk()

    async def main(runtime: Runtime) -> dict[str, float]:
        quorum = await open_quorum(runtime)
        quorum.core._state.lost_end = OffsetAndEpoch(99, 1)
        found = {sample.name: sample.value for metric in collect_quorum(quorum) for sample in metric.samples}
        quorum.core._state.lost_end = None
        await quorum.close()
        return found

    names = ("crabka_metadata_log_cuts_total", "crabka_metadata_log_cut_bytes_total")
    waits = "crabka_metadata_log_waits_for_lost_entries"
    repairs = "crabka_quorum_state_repairs_total"
    assert run_node(fs, main) == {names[0]: 0, names[1]: 0, waits: 1, repairs: 0}
    fs.rot(f"{LOG_DIRECTORY}/quorum-state", 20)
    file = fs.open(f"{LOG_DIRECTORY}/00000000000000000000.log")
    file.pwritev([b"torn"], file.size())
    file.close()
    assert run_node(fs, main) == {names[0]: 1, names[1]: 4, waits: 1, repairs: 1}
