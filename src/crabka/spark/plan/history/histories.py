"""Whether logs still have what was read of them, and witnesses for the next time.

The rule. The last batch that was read is looked for where reads would find it, in the tier or at the leader:

- It is there, with the same offsets, leader epoch and checksum: the history is the same.
- Another batch is at its last offset, or the log ends before it: the log was cut. A batch that compaction wrote anew
  keeps its offsets and epoch and has fewer records or a delete horizon; that is no cut.
- It is not there to be compared (retention deleted it, compaction removed it or wrote it anew, the tier does not reach
  so far): the earlier witnesses of the log that is left are compared in the same way. If none of them differs, the
  lineage of leader epochs decides. The leader, or the newest segment of the tier, must have each epoch over the last
  witness of it. If it has, the history counts as the same.

Witnesses of a read are taken before the history is verified, and both before anything is read. So a cut at any moment
is noticed: either here, or by the next one to verify, since these witnesses are of the log before the cut.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from crabka.clients.fetcher.epoch_ends import LeaderEpochEnd
from crabka.clients.fetcher.offsets import EARLIEST, LATEST
from crabka.formats.leader_epochs import NO_END, EpochLineage
from crabka.ids import TopicPartition
from crabka.spark.errors import SegmentVanishedError, lose
from crabka.spark.options.source_options import SourceOptions
from crabka.spark.plan.context import PlanContext, is_tier_only, open_context, with_retries
from crabka.spark.plan.history.batch_lookup import BatchLookup
from crabka.spark.plan.history.divergence import Divergence, LogCutError, ReadPosition
from crabka.spark.plan.history.witnesses import BatchWitness, Chain, HistoryVerdict, judge
from crabka.spark.plan.survey import PartitionSurvey, Survey, make_survey

logger = logging.getLogger(__name__)


class _Finding(NamedTuple):
    verdict: HistoryVerdict
    # From where on the log is known to be different.
    differs_offset: int = NO_END


@dataclass(frozen=True, slots=True)
class Inspection:
    """Witnesses of what is about to be read, and cuts that the options accept."""

    witnesses: Mapping[TopicPartition, Sequence[BatchWitness]]
    divergences: tuple[Divergence, ...] = ()


def inspect_history(
    options: SourceOptions,
    survey: Survey | None,
    positions: Mapping[TopicPartition, ReadPosition],
    offsets: Mapping[TopicPartition, Iterable[int]],
) -> Inspection:
    """Take witnesses at offsets that are about to be read, and verify what was read before.

    `survey` is that of the plan, None for a new one. Raises LogCutError, unless the options pass losses over, and what
    stores and brokers raise.
    """
    with open_context(options) as context:
        survey = make_survey(context) if survey is None else survey
        witnesses = take_witnesses(context, survey, offsets)
        divergences = find_divergences(context, survey, positions)
    if divergences:
        lose(options, LogCutError(divergences))
    return Inspection(witnesses, tuple(divergences))


def survey_divergences(
    options: SourceOptions, positions: Mapping[TopicPartition, ReadPosition]
) -> tuple[Survey, list[Divergence]]:
    """Return a survey of the chosen topics, and where their logs differ from what was read. Accepts no losses."""
    with open_context(options) as context:
        survey = make_survey(context)
        return survey, find_divergences(context, survey, positions)


def take_witnesses(
    context: PlanContext, survey: Survey, offsets: Mapping[TopicPartition, Iterable[int]]
) -> dict[TopicPartition, list[BatchWitness]]:
    """Return witnesses of the batches with these offsets; those that compaction removed have none."""
    places = [(partition, offset) for partition, wanted in offsets.items() for offset in wanted]
    taken: dict[TopicPartition, list[BatchWitness]] = {}
    for (partition, offset), header in BatchLookup(context, survey.partitions).find(places).items():
        if header.base_offset <= offset:
            taken.setdefault(partition, []).append(BatchWitness.of(header))
    return taken


def find_divergences(
    context: PlanContext, survey: Survey, positions: Mapping[TopicPartition, ReadPosition]
) -> list[Divergence]:
    """Return the partitions whose logs no longer have what was read of them."""
    known = {partition: position for partition, position in positions.items() if partition in survey.partitions}
    bounds = _bounds(context, survey, known)
    chains = {partition: position.chain for partition, position in known.items() if position.chain}
    lookup = BatchLookup(context, survey.partitions)
    findings = _findings(context, survey, chains, lookup, bounds)
    diverged: dict[TopicPartition, int] = {}
    for partition, position in known.items():
        finding, end = findings.get(partition), bounds[partition].stop
        if position.offset > end and not is_tier_only(context.options):
            diverged[partition] = min(end, NO_END if finding is None else finding.differs_offset)
        elif finding is not None and finding.verdict is HistoryVerdict.DIFFERENT:
            diverged[partition] = min(position.offset - 1, finding.differs_offset)
    return _located(lookup, known, diverged, bounds)


def _bounds(
    context: PlanContext, survey: Survey, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, range]:
    """Return the first offset and the end of logs as they are now: a survey may be some time old."""
    session = context.session
    if session is None or is_tier_only(context.options):
        return {p: range(survey.partitions[p].earliest, survey.partitions[p].latest) for p in partitions}

    def ask(position: int) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, position)
        return with_retries(context.options, lambda: session.offsets(wanted, read_committed=False))

    latest, earliest = ask(LATEST), ask(EARLIEST)
    return {partition: range(earliest[partition], latest[partition]) for partition in partitions}


def _findings(
    context: PlanContext,
    survey: Survey,
    chains: Mapping[TopicPartition, Chain],
    lookup: BatchLookup,
    bounds: Mapping[TopicPartition, range],
) -> dict[TopicPartition, _Finding]:
    """Compare the witnesses of each partition with its log: the last one, or others if it cannot be compared."""
    found = lookup.find([(partition, chain[-1].last_offset) for partition, chain in chains.items()])
    findings: dict[TopicPartition, _Finding] = {}
    for partition, chain in chains.items():
        head = chain[-1]
        verdict = judge(head, found.get((partition, head.last_offset)))
        if verdict is HistoryVerdict.DIFFERENT:
            findings[partition] = _Finding(verdict, head.base_offset)
        elif verdict is HistoryVerdict.SAME:
            findings[partition] = _Finding(verdict)
        elif head.last_offset >= bounds[partition].stop and not is_tier_only(context.options):
            findings[partition] = _Finding(HistoryVerdict.DIFFERENT, bounds[partition].stop)
    # Of what lies before the log start neither batches nor epochs are left, but for the epoch of the last witness.
    missing = {
        partition: (*(each for each in chain[:-1] if each.last_offset >= bounds[partition].start), chain[-1])
        for partition, chain in chains.items()
        if partition not in findings
    }
    findings |= _by_earlier_witnesses(lookup, missing)
    missing = {partition: chain for partition, chain in missing.items() if partition not in findings}
    for partition, finding in _by_lineage(context, survey, missing).items():
        if finding.verdict is HistoryVerdict.UNKNOWN:
            logger.info("the last batch that was read of %s is no longer there; the leader epochs agree", partition)
        findings[partition] = finding
    return findings


def _by_earlier_witnesses(
    lookup: BatchLookup, chains: Mapping[TopicPartition, Chain]
) -> dict[TopicPartition, _Finding]:
    """Return the partitions in which another batch lies in the place of an earlier witness."""
    places = [(partition, each.last_offset) for partition, chain in chains.items() for each in chain[:-1]]
    found = lookup.find(places)
    findings: dict[TopicPartition, _Finding] = {}
    for partition, chain in chains.items():
        verdicts = ((each, judge(each, found.get((partition, each.last_offset)))) for each in chain[:-1])
        others = [each.base_offset for each, verdict in verdicts if verdict is HistoryVerdict.DIFFERENT]
        if others:
            findings[partition] = _Finding(HistoryVerdict.DIFFERENT, min(others))
    return findings


def _by_lineage(
    context: PlanContext, survey: Survey, chains: Mapping[TopicPartition, Chain]
) -> dict[TopicPartition, _Finding]:
    """Return the findings by leader epochs for chains whose last batches cannot be compared."""
    session = context.session
    last_of_epochs = {
        partition: list({each.leader_epoch: each for each in chain if each.leader_epoch >= 0}.values())
        for partition, chain in chains.items()
    }
    if session is None:
        return {
            partition: _least([_by_tier_lineage(context, survey.partitions[partition], each) for each in witnesses])
            for partition, witnesses in last_of_epochs.items()
            if witnesses
        }
    answers: dict[TopicPartition, list[_Finding]] = {}
    for turn in range(max(map(len, last_of_epochs.values()), default=0)):
        turns = {partition: each[turn] for partition, each in last_of_epochs.items() if turn < len(each)}
        asked = {partition: witness.leader_epoch for partition, witness in turns.items()}
        for partition, answer in with_retries(context.options, partial(session.epoch_ends, asked)).items():
            answers.setdefault(partition, []).append(_by_epoch_end(answer, turns[partition]))
    return {partition: _least(found) for partition, found in answers.items()}


def _by_epoch_end(answer: LeaderEpochEnd, witness: BatchWitness) -> _Finding:
    """Return whether a leader has the epoch of a witness over its last offset."""
    if answer.leader_epoch == witness.leader_epoch and answer.end_offset > witness.last_offset:
        return _Finding(HistoryVerdict.UNKNOWN)
    # A leader that does not know the epoch names the one before it, or none.
    ends = witness.base_offset if answer.end_offset < 0 else min(answer.end_offset, witness.base_offset)
    return _Finding(HistoryVerdict.DIFFERENT, ends)


def _least(findings: Sequence[_Finding]) -> _Finding:
    """Return the finding with the smallest offset from which on the log is different."""
    return min(findings, key=lambda finding: finding.differs_offset)


def _by_tier_lineage(context: PlanContext, known: PartitionSurvey, head: BatchWitness) -> _Finding:
    """Return what the epochs of the newest segment say; epochs before its first and after its last say nothing."""
    if context.objects is None or not known.parts:
        return _Finding(HistoryVerdict.UNKNOWN)
    try:
        lineage = context.objects.epochs(known.parts[-1].segment)
    except SegmentVanishedError:
        return _Finding(HistoryVerdict.UNKNOWN)
    return lineage_finding(lineage, head)


def lineage_finding(lineage: Sequence[tuple[int, int]], head: BatchWitness) -> _Finding:
    """Return whether a lineage of leader epochs with their first offsets has a batch in its epoch."""
    epoch, known = head.leader_epoch, EpochLineage(lineage)
    if not lineage or not lineage[0][0] <= epoch <= lineage[-1][0]:
        return _Finding(HistoryVerdict.UNKNOWN)
    if known.holds([(epoch, head.base_offset)], head.last_offset):
        return _Finding(HistoryVerdict.UNKNOWN)
    return _Finding(HistoryVerdict.DIFFERENT, min(known.end_of(epoch), head.base_offset))


def _located(
    lookup: BatchLookup,
    positions: Mapping[TopicPartition, ReadPosition],
    diverged: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, range],
) -> list[Divergence]:
    """Find with earlier witnesses where the histories part."""
    places = [(partition, each.last_offset) for partition in diverged for each in positions[partition].chain]
    found = lookup.find(places)
    divergences: list[Divergence] = []
    for partition, differs in sorted(diverged.items()):
        chain = positions[partition].chain
        verdicts = [(each, judge(each, found.get((partition, each.last_offset)))) for each in chain]
        others = [each.base_offset for each, verdict in verdicts if verdict is HistoryVerdict.DIFFERENT]
        first_other = min(others, default=NO_END)
        # A batch that is equal, after one that is not, proves nothing.
        proven = (each.last_offset + 1 for each, found_same in verdicts if found_same is HistoryVerdict.SAME)
        agreed = max((end for end in proven if end <= first_other), default=0)
        divergences.append(
            Divergence(
                partition=partition,
                position=positions[partition].offset,
                agreed_offset=agreed,
                differs_offset=max(agreed, min([differs, *others])),
                log_start_offset=bounds[partition].start,
            )
        )
    return divergences
