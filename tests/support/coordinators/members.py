"""Members of groups: pure ones that step a core, and ones that talk to a node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from crabka.broker.groups.classic_group import ClassicGroup
from crabka.broker.groups.membership import ClassicSettings, GroupState, Membership
from crabka.broker.groups.messages import (
    Action,
    Answer,
    Event,
    Heartbeat,
    Join,
    Leave,
    MemberIdentity,
    Persist,
    Sync,
    Tick,
)
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.nodes.sim_node import SimNode, build, row

SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str, owned: dict[str, list[int]] | None = None) -> bytes:
    """Return what a consumer of the classic protocol says of the topics that it wants, and of what it has."""

    def text(value: str) -> bytes:
        encoded = value.encode()
        return len(encoded).to_bytes(2) + encoded

    def numbers(values: list[int]) -> bytes:
        return len(values).to_bytes(4) + b"".join(each.to_bytes(4) for each in values)

    version, no_user_data = b"\0\1", b"\xff\xff\xff\xff"
    names = len(topics).to_bytes(4) + b"".join(map(text, topics))
    reported = owned or {}
    partitions = len(reported).to_bytes(4) + b"".join(text(name) + numbers(each) for name, each in reported.items())
    return version + names + no_user_data + partitions


class CoreDriver:
    """A core with its answers, storing everything at once by default."""

    def __init__(self, **settings: int) -> None:
        self.group = ClassicGroup(Membership("g", ClassicSettings(**{"initial_rebalance_delay_ms": 0, **settings}), 0))
        self.now_ms = 0
        self.answers: dict[Any, Any] = {}
        # Everything that the core returned, with its time.
        self.trace: list[tuple[int, Action]] = []
        self.stored: list[Persist] = []
        self.waiting: list[Persist] = []
        self.holds_stores = False

    def state(self) -> GroupState:
        """Return the state of the group."""
        return self.group.state

    def step(self, event: Event) -> None:
        """Step; what is to be stored is stored at once unless `holds_stores` is set."""
        for action in self.group.step(event, self.now_ms):
            self.trace.append((self.now_ms, action))
            match action:
                case Answer(reply, result):
                    assert reply not in self.answers
                    self.answers[reply] = result
                case Persist():
                    self.stored.append(action)
                    self.waiting.append(action)
        if not self.holds_stores:
            self.finish_stores()

    def finish_stores(self, error_code: ErrorCode = ErrorCode.none) -> None:
        """Step the core with the outcome of what it gave to store."""
        waiting, self.waiting = self.waiting, []
        for persist in waiting:
            self.step(replace(persist.done, error_code=error_code))

    def join(self, reply: Any, member_id: str = "", **fields: Any) -> Any:
        """Join; return the answer if there is one yet."""
        defaults: dict[str, Any] = {
            "client_id": "c",
            "client_host": "/h",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": (("range", subscription("t")),),
            "new_member_id": f"new-{reply}",
            "requires_known_member_id": False,
        }
        self.step(Join(reply=reply, member_id=member_id, **{**defaults, **fields}))
        return self.answers.get(reply)

    def sync(self, reply: Any, member_id: str, assignments: dict[str, bytes] | None = None, **fields: Any) -> Any:
        """Sync; return the answer if there is one yet."""
        generation = fields.pop("generation", self.group.membership.generation)
        self.step(
            Sync(reply=reply, member_id=member_id, generation=generation, assignments=assignments or {}, **fields)
        )
        return self.answers.get(reply)

    def heartbeat(self, reply: Any, member_id: str, generation: int | None = None, **fields: Any) -> Any:
        """Send a heartbeat; return the answer."""
        known = self.group.membership.generation if generation is None else generation
        self.step(Heartbeat(reply=reply, member_id=member_id, generation=known, **fields))
        return self.answers[reply]

    def leave(self, reply: Any, *members: MemberIdentity) -> Any:
        """Leave; return the answer."""
        self.step(Leave(reply=reply, members=members))
        return self.answers[reply]

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, stopping at every deadline."""
        end = self.now_ms + milliseconds
        while self.group.membership.deadline_ms <= end:
            self.now_ms = max(self.now_ms, self.group.membership.deadline_ms)
            self.step(Tick())
        self.now_ms = end

    def stable(self, *names: str, **fields: Any) -> list[str]:
        """Bring a group with these members to Stable; return their ids, the leader first."""
        for name in names:
            self.join(name, **fields.get(name, {}))
        while any(name not in self.answers for name in names):
            # The first made a generation of its own: it has to join again, as a heartbeat would report.
            leader = self.group.membership.leader_id or ""
            self.join(("again", leader), leader)
        ids = [self.answers[name].member_id for name in names]
        for member_id in sorted(ids, key=lambda each: each == self.group.membership.leader_id):
            self.sync(("sync", member_id), member_id, {each: each.encode() for each in ids})
        return sorted(ids, key=lambda each: each != self.group.membership.leader_id)


class NodeMember:
    """A member that talks to a simulated node in one version of each API."""

    def __init__(self, node: SimNode, group_id: str = "g", instance_id: str | None = None) -> None:
        self.node = node
        self.group_id = group_id
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.client = node.connect()

    def post_join(self, version: int = 9, **fields: Any) -> None:
        """Send a join and do not wait."""
        self.client.post(ApiKey.JOIN_GROUP, version, build(ApiKey.JOIN_GROUP, version, **self._join(**fields)))

    def joined(self, version: int = 9) -> Any:
        """Wait for the answer to a join."""
        _, answer = self.node.run(self.client.response(ApiKey.JOIN_GROUP, version))
        if answer.error_code in (ErrorCode.none, ErrorCode.member_id_required):
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def join(self, version: int = 9, **fields: Any) -> Any:
        """Join, coming back with the id that is given out."""
        self.post_join(version, **fields)
        answer = self.joined(version)
        if answer.error_code is ErrorCode.member_id_required:
            self.post_join(version, **fields)
            answer = self.joined(version)
        return answer

    def _join(self, **fields: Any) -> dict[str, Any]:
        protocol = row("JoinGroupRequestProtocol", name="range", metadata=subscription("t"))
        return {
            "group_id": self.group_id,
            "session_timeout": SESSION_MS,
            "rebalance_timeout": REBALANCE_MS,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocols": [protocol],
            "reason": None,
            **fields,
        }

    def sync(self, assignments: dict[str, bytes] | None = None, version: int = 5, **fields: Any) -> Any:
        """Sync and wait for the answer."""
        rows = [
            row("SyncGroupRequestAssignment", member_id=member_id, assignment=assignment)
            for member_id, assignment in (assignments or {}).items()
        ]
        defaults = {
            "group_id": self.group_id,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": rows,
        }
        return self.node.ask(ApiKey.SYNC_GROUP, version, **{**defaults, **fields})

    def heartbeat(self, version: int = 4, **fields: Any) -> ErrorCode:
        """Send a heartbeat and return the error code."""
        defaults = {
            "group_id": self.group_id,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        return ErrorCode(self.node.ask(ApiKey.HEARTBEAT, version, **{**defaults, **fields}).error_code)

    def stable(self) -> str:
        """Join alone and take everything; return the member id."""
        assert self.join().error_code is ErrorCode.none
        assert self.sync({self.member_id: b"all"}).assignment == b"all"
        return self.member_id

    def commit(self, topic: str = "t", offset: int = 5, version: int = 9, **fields: Any) -> ErrorCode:
        """Commit one offset and return its error code."""
        metadata = fields.pop("metadata", "m")
        partition = row(
            "OffsetCommitRequestPartition",
            partition_index=fields.pop("partition", 0),
            committed_offset=offset,
            committed_leader_epoch=2,
            committed_metadata=metadata,
        )
        image = self.node.context.image.topics.by_name.get(topic)
        topic_id = image.topic_id if image is not None else self.node.runtime.new_uuid()
        names = {"topic_id": topic_id} if version >= 10 else {"name": topic}
        defaults = {
            "group_id": self.group_id,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "retention_time": -1,
            "topics": [row("OffsetCommitRequestTopic", partitions=[partition], **names)],
        }
        answer = self.node.ask(ApiKey.OFFSET_COMMIT, version, **{**defaults, **fields})
        return ErrorCode(answer.topics[0].partitions[0].error_code)


def find_coordinator(node: SimNode, group_id: str = "g") -> Any:
    """Ask for the coordinator, which makes the offsets topic; return its row."""
    answer = node.ask(ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=[group_id])
    return answer.coordinators[0]


def fetch_offset(node: SimNode, topic: str = "t", partition: int = 0, group_id: str = "g") -> int:
    """Return the committed offset of a partition, -1 if there is none."""
    topics = [row("OffsetFetchRequestTopics", name=topic, partition_indexes=[partition])]
    group = row("OffsetFetchRequestGroup", group_id=group_id, member_id=None, member_epoch=-1, topics=topics)
    answer = node.ask(ApiKey.OFFSET_FETCH, 9, groups=[group], require_stable=True)
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)


def group_states(node: SimNode) -> dict[str, tuple[str, str]]:
    """Return state and type of every group."""
    answer = node.ask(ApiKey.LIST_GROUPS, 5, states_filter=(), types_filter=())
    assert answer.error_code is ErrorCode.none, answer
    return {each.group_id: (each.group_state, each.group_type) for each in answer.groups}
