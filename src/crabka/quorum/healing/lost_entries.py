"""Detects that a metadata log lost durable entries, before the log is changed.

A voter that lost such entries may have acknowledged them. It takes part without a vote until a leader has restored
them (`crabka.kraft`). A lone voter has no such leader: it refuses to start, so that an operator decides on the loss
while the damaged files still exist.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from crabka.errors import CorruptDataError
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.voters import VoterSet
from crabka.quorum.raft.log import voter_history

if TYPE_CHECKING:
    from crabka.kraft.voters import ReplicaKey
    from crabka.quorum.loading import LoadedMetadata
    from crabka.quorum.log.survey import LogSurvey

logger = logging.getLogger(__name__)


def whole_end(loaded: LoadedMetadata, survey: LogSurvey) -> OffsetAndEpoch:
    """Return the end of the valid metadata: that of the log, or of the snapshot if that is later."""
    snapshot = OffsetAndEpoch(0, 0) if loaded.snapshot is None else OffsetAndEpoch(*loaded.snapshot)
    if survey.end_offset <= snapshot.offset:
        return snapshot
    return OffsetAndEpoch(survey.end_offset, max(0, survey.epochs.latest))


def lost_end(loaded: LoadedMetadata, survey: LogSurvey, noted: OffsetAndEpoch | None) -> OffsetAndEpoch | None:
    """Return the end that was durable, if the metadata no longer reaches it.

    `durable_end` has it. Without that file, a damaged snapshot is a lower bound: it was written from durable metadata.
    """
    shown = [survey.sealed_end, *(each.end for each in loaded.damaged)] if noted is None else [noted]
    durable = max((end for end in shown if end is not None), key=lambda end: end.recency, default=None)
    return durable if durable is not None and whole_end(loaded, survey).recency < durable.recency else None


def loss_of(loaded: LoadedMetadata, survey: LogSurvey, lost: OffsetAndEpoch) -> str:
    """Describe the lost entries and the damaged files."""
    reasons = [*loaded.damaged, survey.damage] if survey.damage is not None else [*loaded.damaged]
    files = f" ({'; '.join(map(str, reasons))})" if reasons else ""
    end = whole_end(loaded, survey)
    if end.offset >= lost.offset:
        return f"the metadata from offset {end.offset} of epoch {lost.epoch} on was durable and is lost{files}"
    return f"offsets {end.offset} to {lost.offset - 1} of the metadata log were durable and are lost{files}"


def known_voters(loaded: LoadedMetadata, survey: LogSurvey, config_voters: VoterSet) -> VoterSet:
    """Return the newest voters in the files; the header of a damaged snapshot may have later ones than the rest."""
    voters = voter_history(loaded, survey.control, config_voters).voters
    end = whole_end(loaded, survey)
    for each in loaded.damaged:
        is_newer = not voters.nodes or each.end.recency > end.recency
        if is_newer and each.head is not None and each.head.voters:
            return VoterSet(each.head.voters)
    return voters


class LossCheck:
    """Refuses metadata that lost durable entries, or its voters, if no other node can restore them."""

    def __init__(self, directory: str, key: ReplicaKey, config_voters: VoterSet, *, knows_others: bool = False) -> None:
        """`knows_others` is true if the config names another node."""
        self._directory = directory
        self._key = key
        self._config_voters = config_voters
        self._knows_others = knows_others

    def __call__(self, loaded: LoadedMetadata, survey: LogSurvey, noted: OffsetAndEpoch | None) -> None:
        """Check a log before it is opened. Raises CorruptDataError."""
        lost = lost_end(loaded, survey, noted)
        voters = known_voters(loaded, survey, self._config_voters)
        if lost is None:
            self._check_voters(loaded, survey, voters)
            return
        text = loss_of(loaded, survey, lost)
        is_alone = voters.is_voter(self._key) and len(voters) == 1
        if is_alone or not (voters.nodes or self._knows_others):
            raise CorruptDataError(
                self._directory,
                f"{text}. This node is the only known voter, so no other node can restore them. Restore the "
                "directory from a backup, or accept the loss with `crabka quorum repair --accept-loss --execute`",
            )
        if voters.is_voter(self._key):
            logger.warning(
                "%s: %s. This voter does not take part in elections until a leader has restored them. If no "
                "other voter is left: `crabka quorum repair --accept-loss`",
                self._directory,
                text,
            )

    def _check_voters(self, loaded: LoadedMetadata, survey: LogSurvey, voters: VoterSet) -> None:
        """Refuse a node that lost only the voters, if no other node knows them."""
        is_alone = len(voters) == 1 or not (voters.nodes or self._knows_others)
        named = voter_history(loaded, survey.control, self._config_voters).voters
        if loaded.damaged and is_alone and not named.nodes:
            raise CorruptDataError(
                loaded.damaged[0].path,
                f"{loaded.damaged[0].reason}. It has the voters of a quorum without other metadata yet, so "
                "nothing is lost: format the directory anew",
            )
