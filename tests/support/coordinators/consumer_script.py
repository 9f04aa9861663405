"""The commands of scripts of consumer groups (tests/support/scripts.py).

group TOPIC=COUNT...                                    a new group, and the topics of the cluster
topic NAME COUNT                                        a topic is created or gets partitions
beat MEMBER EPOCH [topics=T,T] [owned=P] [instance=I] [rebalance=MS] [assignor=A]
pass MS                                                 time passes; what is due happens
hold, stored [ERROR]                                    keep batches back; the outcome of the batches that wait
restart                                                 load the group from its records

P is partitions of topics: `t:0,1+u:2`. The output of a command is the records that were stored, the size of a batch
that waits, the answers, and the state of the group and its members, if it changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.groups.consumer.records import (
    CurrentRecord,
    GroupEpochRecord,
    MemberRecord,
    TargetEpochRecord,
    TargetRecord,
)
from crabka.broker.groups.records import decode_pair
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import ConsumerCore, catalog_of, topic_id

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Iterator, Mapping

    from crabka.broker.groups.consumer.messages import ConsumerHeartbeatResult
    from tests.support.scripts import Command


class ConsumerScript:
    """A consumer group and its members."""

    def __init__(self) -> None:
        self._core = ConsumerCore()
        self._stored = 0
        self._answered: set[Any] = set()
        self._shown = ""

    def run(self, command: Command) -> Iterator[str]:
        """Run a command; yield what follows from it."""
        yield " ".join([">", command.name, *command.words])
        self._do(command)
        core = self._core
        for key, value in core.log[self._stored :]:
            yield f"store {self._record(decode_pair(key, value))}"
        self._stored = len(core.log)
        for batch in core.waiting:
            yield f"to be stored: {len(batch.pairs)} records"
        for reply in sorted(set(core.answers) - self._answered):
            yield self._answer(core.answers[reply])
        self._answered = set(core.answers)
        state = self._state()
        if state != self._shown:
            self._shown = state
            yield state

    def _do(self, command: Command) -> None:
        core, words = self._core, command.words
        match command.name:
            case "group":
                counts = {name: int(count) for name, count in command.options.items()}
                self._core = ConsumerCore(catalog_of(**counts))
                self._stored, self._shown = 0, ""
            case "topic":
                known = core.catalog.by_name.get(words[0])
                found = known.topic_id if known is not None else topic_id(len(core.catalog.by_name))
                core.catalog.put(words[0], found, [[] for _ in range(int(words[1]))])
            case "beat":
                core.post(words[0], int(words[1]), **self._fields(command.options))
            case "pass":
                core.pass_time(int(words[0]))
            case "hold":
                core.holds_stores = True
            case "stored":
                core.holds_stores = False
                core.finish_stores(ErrorCode[words[0]] if words else ErrorCode.none)
            case "restart":
                core.restart()
            case _:
                raise ValueError(command)

    def _fields(self, options: Mapping[str, str]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for name, value in options.items():
            match name:
                case "topics":
                    fields["topic_names"] = tuple(value.split(","))
                case "owned":
                    fields["owned"] = dict(map(self._owned, filter(None, value.split("+"))))
                case "instance":
                    fields["instance_id"] = value
                case "rebalance":
                    fields["rebalance_timeout_ms"] = int(value)
                case "assignor":
                    fields["server_assignor"] = value
                case _:
                    raise ValueError(name)
        return fields

    def _owned(self, text: str) -> tuple[uuid.UUID, frozenset[int]]:
        name, _, numbers = text.partition(":")
        return self._core.catalog.by_name[name].topic_id, frozenset(map(int, numbers.split(",")))

    def _partitions(self, assigned: Mapping[uuid.UUID, Iterable[int]]) -> str:
        topics = self._core.catalog.by_id
        return "+".join(f"{topics[each].name}:{','.join(map(str, sorted(assigned[each])))}" for each in assigned) or "-"

    def _record(self, record: object) -> str:
        match record:
            case MemberRecord(_, member_id, metadata):
                return f"member {member_id}" if metadata is not None else f"no member {member_id}"
            case GroupEpochRecord(_, epoch):
                return f"group epoch {epoch}"
            case TargetEpochRecord(_, epoch):
                return f"target epoch {epoch}"
            case TargetRecord(_, member_id, partitions):
                return f"target {member_id} {'removed' if partitions is None else self._partitions(partitions)}"
            case CurrentRecord(_, member_id, None):
                return f"current {member_id} removed"
            case CurrentRecord(_, member_id, current):
                assert current is not None
                revoking = f" revoking {self._partitions(current.revoking)}" if current.revoking else ""
                place = f"epoch={current.epoch} after {current.previous_epoch}"
                return f"current {member_id} {place} {self._partitions(current.assigned)}{revoking}"
        return type(record).__name__

    def _answer(self, result: ConsumerHeartbeatResult) -> str:
        if result.error_code is not ErrorCode.none:
            return f"answer {result.error_code.name}"
        assignment = "as before" if result.assignment is None else self._partitions(result.assignment)
        return f"answer {result.member_id} epoch={result.member_epoch} {assignment}"

    def _state(self) -> str:
        group = self._core.group
        members = ", ".join(
            f"{each.member_id}@{each.current.epoch} {each.current.state.name.lower()}"
            for each in group.data.members.values()
        )
        return f"= {group.state.value} epoch={group.data.epoch} {members or 'without members'}"
