"""Repairs of the metadata directory of a stopped node, and the loss that each step causes.

`plan_repair` only reads. Steps that lose data are included, but are carried out only if their option accepts that. The
caller holds the lock of the directory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabka.errors import ConfigError, CorruptDataError
from crabka.formats.quorum_state import FILE_NAME as QUORUM_STATE
from crabka.formats.quorum_state import QuorumStateFile
from crabka.kraft.epochs import MAX_EPOCH
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.settings import KraftSettings
from crabka.kraft.voters import VoterSet
from crabka.quorum.healing.lost_entries import loss_of, lost_end, whole_end
from crabka.quorum.loading import LoadedMetadata, load_snapshot
from crabka.quorum.log.durable_end import DurableEnd, read_durable_end
from crabka.quorum.log.metadata_log import DIRECTORY_NAME
from crabka.quorum.log.survey import LogSurvey, survey_log
from crabka.quorum.raft.log import voter_history
from crabka.quorum.raft.state_file import read_quorum_state, write_quorum_state
from crabka.quorum.snapshots.files import SnapshotContent, SnapshotId, write_snapshot
from crabka.quorum.snapshots.set_aside import DAMAGED_SUFFIX, set_aside
from crabka.quorum.storage import read_meta_properties
from crabka.vfs import read_file, write_atomic

if TYPE_CHECKING:
    from crabka.ports import FileSystem

ACCEPT_LOSS = "--accept-loss"
ACCEPT_CLUSTER_ID = "--accept-cluster-id"
KEPT_SUFFIX = ".before-repair"
# A valid vote is less than this ahead of the log (see `kraft.epochs`): no vote was given in the new epoch.
EPOCH_STEP = 1_000_000


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One fault, its repair, and the option that accepts the loss of data, if any."""

    problem: str
    action: str
    option: str | None
    run: Callable[[], None]

    def is_allowed(self, accepted: Collection[str]) -> bool:
        """Whether this step may be carried out."""
        return self.option is None or self.option in accepted


def plan_repair(fs: FileSystem, metadata_dir: str) -> list[RepairStep]:
    """Return the repairable faults of a metadata directory; changes nothing.

    Raises ConfigError for a directory that is not formatted or whose log has used up the epochs, CorruptDataError for
    `meta.properties` that cannot be read.
    """
    properties = read_meta_properties(fs, metadata_dir)
    directory = f"{metadata_dir}/{DIRECTORY_NAME}"
    if not fs.exists(directory):
        return []
    loaded = load_snapshot(fs, directory)
    noted = read_durable_end(fs, directory)
    start_offset = 0 if loaded.snapshot is None else loaded.snapshot.end_offset
    survey = survey_log(fs, directory, start_offset, None if noted is None else noted.end)
    steps = [
        _election_step(fs, directory, whole_end(loaded, survey).epoch),
        _cluster_step(fs, directory, properties.cluster_id),
        _loss_step(fs, directory, loaded, survey) or _snapshot_step(fs, directory, loaded),
    ]
    return [step for step in steps if step is not None]


def _election_step(fs: FileSystem, directory: str, last_epoch: int) -> RepairStep | None:
    """Replace a quorum-state that is unreadable, or that leaves no epoch for elections."""
    path = f"{directory}/{QUORUM_STATE}"
    try:
        state = read_quorum_state(fs, directory)
    except CorruptDataError as error:
        problem = str(error)
    else:
        if state is None or state.leader_epoch <= last_epoch + KraftSettings().response_epochs:
            return None
        problem = f"{path}: epoch {state.leader_epoch} is far beyond the log, whose last epoch is {last_epoch}"
    epoch = last_epoch + EPOCH_STEP
    if epoch > MAX_EPOCH // 2:
        raise ConfigError(f"{directory}: the log itself has records of epoch {last_epoch}: restore it from a backup")

    def run() -> None:
        write_atomic(fs, path + KEPT_SUFFIX, read_file(fs, path))
        write_quorum_state(fs, directory, QuorumStateFile(leader_epoch=epoch))

    action = (
        f"write epoch {epoch} without leader and vote, keep the old file as {QUORUM_STATE}{KEPT_SUFFIX}. Do so on "
        "every voter that has such an epoch before any of them starts"
    )
    return RepairStep(problem, action, None, run)


def _cluster_step(fs: FileSystem, directory: str, cluster_id: str) -> RepairStep | None:
    noted = read_durable_end(fs, directory)
    if noted is None or not noted.cluster_id or noted.cluster_id == cluster_id:
        return None
    return RepairStep(
        f"meta.properties says cluster {cluster_id}, the metadata is that of cluster {noted.cluster_id}",
        f"take the metadata over into cluster {cluster_id}. If cluster.id was changed by mistake, restore it instead",
        ACCEPT_CLUSTER_ID,
        lambda: _note(fs, directory, cluster_id, noted.end),
    )


def _loss_step(fs: FileSystem, directory: str, loaded: LoadedMetadata, survey: LogSurvey) -> RepairStep | None:
    noted = read_durable_end(fs, directory)
    lost = lost_end(loaded, survey, None if noted is None else noted.end)
    if lost is None:
        return None
    end = whole_end(loaded, survey)
    cluster_id = "" if noted is None else noted.cluster_id

    def run() -> None:
        replaced = _keep_voters(fs, directory, loaded, survey)
        set_aside(fs, directory, [each for each in loaded.damaged if each.snapshot_id != replaced])
        _note(fs, directory, cluster_id, end)

    aside = f" Damaged snapshots are kept as *{DAMAGED_SUFFIX}." if loaded.damaged else ""
    return RepairStep(
        loss_of(loaded, survey, lost),
        f"let the metadata end at offset {end.offset}.{aside} WARNING: topics, configs and registrations in the lost "
        "offsets are gone for good if no other voter has them. Do this only if no other voter can be started: as long "
        "as there is one, a leader brings this voter back by itself",
        ACCEPT_LOSS,
        run,
    )


def _snapshot_step(fs: FileSystem, directory: str, loaded: LoadedMetadata) -> RepairStep | None:
    if not loaded.damaged:
        return None
    start = "the log from offset 0" if loaded.snapshot is None else f"{loaded.snapshot.file_name} and the log after it"
    return RepairStep(
        "; ".join(map(str, loaded.damaged)),
        f"keep it as *{DAMAGED_SUFFIX} and go on with {start}, which hold everything. The next start does the same",
        None,
        lambda: set_aside(fs, directory, loaded.damaged),
    )


def _keep_voters(fs: FileSystem, directory: str, loaded: LoadedMetadata, survey: LogSurvey) -> SnapshotId | None:
    """Rewrite the snapshot of a new quorum if only a damaged one has the voters; return its path, if any."""
    head = next((each.head for each in loaded.damaged if each.head is not None and each.head.voters), None)
    if head is None or voter_history(loaded, survey.control, VoterSet()).voters.nodes:
        # A static quorum has its voters in the config.
        return None
    first = SnapshotId(0, 0)
    content = SnapshotContent((), head.timestamp_ms, head.kraft_version, head.voters)
    path = f"{directory}/{first.file_name}"
    write_snapshot(fs, path, content, epoch=first.epoch, now_ms=head.timestamp_ms)
    return first


def _note(fs: FileSystem, directory: str, cluster_id: str, end: OffsetAndEpoch) -> None:
    note = DurableEnd(fs, directory, cluster_id)
    note.replace(end)
    note.close()
