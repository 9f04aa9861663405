"""Whether a metadata log lacks entries that were durable, and what follows from that before the log is changed.

A voter that lost such entries may have acknowledged them. It takes part without a vote until a leader has brought it
back (`crabka.kraft`). A voter that is alone has no such leader: it refuses to start, so that an operator decides on the
loss and the damaged files are still there.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crabka.errors import CorruptDataError
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.quorum.raft_log import voter_history

if TYPE_CHECKING:
    from crabka.kraft.voters import ReplicaKey, VoterSet
    from crabka.quorum.loading import LoadedMetadata
    from crabka.quorum.log_survey import LogSurvey

LOGGER = logging.getLogger(__name__)


def whole_end(loaded: LoadedMetadata, survey: LogSurvey) -> OffsetAndEpoch:
    """Return where the metadata ends that is whole: the log, or the snapshot if that reaches further."""
    snapshot = OffsetAndEpoch(0, 0) if loaded.snapshot is None else OffsetAndEpoch(*loaded.snapshot)
    if survey.end_offset <= snapshot.offset:
        return snapshot
    return OffsetAndEpoch(survey.end_offset, max(0, survey.epochs.latest))


def lost_end(loaded: LoadedMetadata, survey: LogSurvey, noted: OffsetAndEpoch | None) -> OffsetAndEpoch | None:
    """Return the end that was durable before, if the metadata does not reach it any more."""
    durable = noted if noted is not None else survey.sealed_end
    return durable if durable is not None and whole_end(loaded, survey).recency < durable.recency else None


class LossCheck:
    """Refuses a log that lost durable entries if its replica is the only voter."""

    def __init__(self, directory: str, key: ReplicaKey, config_voters: VoterSet) -> None:
        self._directory = directory
        self._key = key
        self._config_voters = config_voters

    def __call__(self, loaded: LoadedMetadata, survey: LogSurvey, noted: OffsetAndEpoch | None) -> None:
        """Look at a log before it is opened. Raises CorruptDataError."""
        lost = lost_end(loaded, survey, noted)
        if lost is None:
            return
        end = whole_end(loaded, survey)
        reason = "" if survey.damage is None else f" ({survey.damage})"
        text = f"offsets {end.offset} to {lost.offset - 1} of the metadata log were durable and are lost{reason}"
        voters = voter_history(loaded, survey.control, self._config_voters).voters
        if voters.is_voter(self._key) and len(voters) == 1:
            raise CorruptDataError(
                self._directory,
                f"{text}. This node is the only voter, so nothing can bring them back. Restore the directory from a "
                "backup, or accept the loss with `crabka quorum repair --accept-loss --execute`",
            )
        if voters.is_voter(self._key):
            LOGGER.warning(
                "%s: %s. This voter neither votes nor stands until a leader has brought them back. If no "
                "other voter is left: `crabka quorum repair --accept-loss`",
                self._directory,
                text,
            )
