"""FetchSnapshot at the controller listener."""

from __future__ import annotations

from uuid import UUID

from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import FetchSnapshotRequest
from crabka.kraft.voters import ReplicaKey
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.sim_controller import CLUSTER_ID, SimControllers, run_controllers


@run_with(run_controllers)
async def test_pieces_of_a_snapshot(cluster: SimControllers, /) -> None:
    node = await cluster.active()
    await node.quorum.snapshot()
    image = node.quorum.image

    def piece(snapshot: OffsetAndEpoch) -> FetchSnapshotRequest:
        return FetchSnapshotRequest(
            cluster_id=CLUSTER_ID,
            replica=ReplicaKey(9, UUID(int=9)),
            epoch=node.quorum.leader_epoch,
            snapshot=snapshot,
            position=0,
            max_bytes=100,
        )

    newest = OffsetAndEpoch(image.offset + 1, image.epoch)
    (found,) = (await node.ask_quorum(ApiKey.FETCH_SNAPSHOT, 1, piece(newest))).topics[0].partitions
    assert (found.error_code, found.position) == (ErrorCode.none, 0)
    assert found.size > 0
    (lost,) = (await node.ask_quorum(ApiKey.FETCH_SNAPSHOT, 1, piece(OffsetAndEpoch(1, 1)))).topics[0].partitions
    assert lost.error_code is ErrorCode.snapshot_not_found
