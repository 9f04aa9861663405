"""The commands of scripts of one replica of the quorum (tests/support/scripts.py).

N is a node, O@E an offset and its epoch:

new [voters=N,N] [entries=E,E] [epoch=E] [leader=N] [voted=N] [durable=O@E]     a replica, node 1, with a log
time MS|SETTING          fail N [unsupported]          lost N          lead          hold, flush, append VALUE
vote N epoch=E last=O@E [pre] [voter=N] [cluster=C]    begin N epoch=E [voter=N] [cluster=C]
end N epoch=E [preferred=N,N]                          fetch N [at=O] [wait=MS]
answer N [granted] [FIELD=VALUE...]                    to the newest request to N; records=E:VALUE,... for a fetch

The output of a command is its actions, those that wait for quorum-state further in, and the state if it changed.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterator
from uuid import UUID

from crabka.kraft.actions import (
    Action,
    AppendControl,
    AppendRecords,
    ElectionState,
    PersistElection,
    Reply,
    RoleChanged,
    Send,
    Warn,
)
from crabka.kraft.events import LeaderLost
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    LeaderHint,
    MetadataFetchRequest,
    MetadataFetchResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from crabka.kraft.voters import ReplicaKey, VoterNode, VoterSet
from crabka.protocol.error_codes import ErrorCode
from tests.support.kraft_sim.disk import Entry
from tests.support.quorum.kraft_bench import CLUSTER, CoreBench, voter
from tests.support.scripts import Command

STRANGER = UUID(int=9)
# Fields that say nothing in a script: endpoints, sizes, and what is the same everywhere.
QUIET = ("endpoints", "max_bytes", "max_wait_ms", "granting", "log_start_offset", "candidate", "replica")


class KraftScript:
    """One core on a workbench."""

    def __init__(self) -> None:
        self._bench = CoreBench()
        self._sent: list[Send] = []
        self._shown = ""

    def run(self, command: Command) -> Iterator[str]:
        """Run a command; yield what follows from it."""
        yield " ".join([">", command.name, *command.words])
        self._bench.actions = []
        self._do(command)
        actions = self._bench.actions
        self._sent += [each for each in actions if isinstance(each, Send)]
        inner = {id(each) for action in actions if isinstance(action, PersistElection) for each in action.then}
        for action in actions:
            if id(action) not in inner:
                yield from shown_action(action)
        if (state := self._state()) != self._shown:
            self._shown = state
            yield state

    def _do(self, command: Command) -> None:
        bench, words, options = self._bench, command.words, command.options
        match command.name:
            case "new":
                self._bench, self._sent, self._shown = bench_of(options), [], ""
            case "time":
                bench.pass_time(int(words[0]) if words[0].isdigit() else getattr(bench.settings, words[0]))
            case "fail":
                bench.fail(self._request_to(words[0]), unsupported="unsupported" in words)
            case "lost":
                bench.step(LeaderLost(int(words[0])))
            case "lead":
                bench.lead()
            case "hold":
                bench.syncs = False
            case "flush":
                bench.flush()
            case "append":
                bench.append(*map(int, words))
            case "fetch":
                offset = int(options["at"]) if "at" in options else None
                bench.fetch_from(int(words[0]), offset, wait_ms=int(options.get("wait", 0)))
            case "answer":
                send = self._request_to(words[0])
                bench.respond(send, response_of(send.request, command, bench))
            case _:
                bench.ask(request_of(command))

    def _request_to(self, node: str) -> Send:
        send = next(each for each in reversed(self._sent) if str(each.to.node_id) == node)
        self._sent.remove(send)
        return send

    def _state(self) -> str:
        core = self._bench.core
        leader, voted = core.election.leader_id, core.election.voted
        facts = [f"epoch={core.epoch}", f"leader={leader}" if leader is not None else "", f"voted={key(voted)}"]
        facts += [f"end={self._bench.log.end_offset}", f"high_watermark={core.high_watermark}"]
        facts += ["lost" if core.lost_end is not None else ""]
        return f"= {core.role.value} {' '.join(each for each in facts if each and not each.endswith('=None'))}"


def key(value: ReplicaKey | None) -> str:
    """Return the node of a replica, with a star if its directory is not the one that it should be."""
    if value is None:
        return "None"
    return f"{value.node_id}{'' if value.node_id < 0 or value == voter(value.node_id).key else '*'}"


def shown_action(action: Action, indent: str = "") -> Iterator[str]:
    """Yield the lines of an action."""
    match action:
        case PersistElection(state, then):
            yield f"{indent}persist {shown(state)}"
            for each in then:
                yield from shown_action(each, indent + "  ")
        case Send(_, to, request):
            yield f"{indent}-> {to.node_id}: {shown(request)}"
        case Reply(_, response):
            yield f"{indent}reply {shown(response)}"
        case RoleChanged(before, after, _, reason):
            yield f"{indent}{before.value} -> {after.value}: {reason}"
        case AppendControl(_, base_offset, records):
            yield f"{indent}append at {base_offset}: {', '.join(map(shown, records))}"
        case AppendRecords(base_offset, _, records) if isinstance(records, tuple):
            yield f"{indent}append at {base_offset}: {len(records)} records"
        case Warn(message):
            yield f"{indent}warn {message}"
        case _:
            yield f"{indent}{shown(action)}"


def shown(value: object) -> str:
    """Return the text of a message: its kind and the fields that say something."""
    match value:
        case OffsetAndEpoch(offset, epoch):
            return f"{offset}@{epoch}"
        case ReplicaKey():
            return key(value)
        case ElectionState(epoch, leader_id, voted):
            return f"epoch={epoch} leader={leader_id} voted={key(voted)}"
        case LeaderHint(epoch, leader_id):
            return f"{leader_id} in {epoch}"
        case VoterSet():
            return shown(value.nodes)
        case VoterNode():
            return str(value.voter_id)
        case enum.Enum():
            return value.name
        case tuple():
            return ",".join(map(shown, value))
        case _ if not dataclasses.is_dataclass(value):
            return str(value)
    kind = type(value).__name__.removesuffix("Request").removesuffix("Response")
    fields = [(each.name, getattr(value, each.name)) for each in dataclasses.fields(value)]
    facts = [
        name if each is True else f"{name}={shown(each)}"
        for name, each in fields
        if name not in QUIET and each not in (None, False, (), b"", CLUSTER, ErrorCode.none, -1)
    ]
    return " ".join([re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind).lower(), *facts])


def bench_of(options: object) -> CoreBench:
    """Return the bench of a `new` command."""
    assert isinstance(options, dict)
    numbers = {name: int(options[name]) for name in ("epoch", "leader", "voted") if name in options}
    election = None
    if "epoch" in numbers:
        voted = voter(numbers["voted"]).key if "voted" in numbers else None
        election = ElectionState(numbers["epoch"], numbers.get("leader"), voted)
    epochs = [int(each) for each in options.get("entries", "").split(",") if each]
    return CoreBench(
        voters=tuple(int(each) for each in options.get("voters", "1,2,3").split(",")),
        entries=tuple(Entry(epoch, value) for value, epoch in enumerate(epochs)),
        election=election,
        durable_end=position(options["durable"]) if "durable" in options else None,
    )


def position(text: str) -> OffsetAndEpoch:
    """Return the position of O@E."""
    offset, _, epoch = text.partition("@")
    return OffsetAndEpoch(int(offset), int(epoch))


def request_of(command: Command) -> Request:
    """Return the request of a command."""
    options, node = command.options, int(command.words[0])
    cluster, epoch = options.get("cluster", CLUSTER), int(options["epoch"])
    match command.name:
        case "vote":
            asked = int(options.get("voter", 1))
            return VoteRequest(
                cluster_id=cluster,
                candidate=voter(node).key if node >= 0 else ReplicaKey(node),
                epoch=epoch,
                last=position(options["last"]),
                voter=ReplicaKey(1, STRANGER) if "stranger" in command.words else voter(asked).key,
                pre_vote="pre" in command.words,
            )
        case "begin":
            asked_key = ReplicaKey(1, STRANGER) if "stranger" in command.words else voter(1).key
            return BeginQuorumEpochRequest(cluster_id=cluster, leader_id=node, epoch=epoch, voter=asked_key)
        case "end":
            preferred = tuple(voter(int(each)).key for each in options.get("preferred", "").split(",") if each)
            return EndQuorumEpochRequest(cluster_id=cluster, leader_id=node, epoch=epoch, preferred=preferred)
        case _:
            raise ValueError(command)


def response_of(request: Request, command: Command, bench: CoreBench) -> Response:
    """Return the answer of a peer."""
    options = command.options
    error = ErrorCode[options.get("error", "none")]
    leader_id = int(options["leader"]) if "leader" in options else None
    if isinstance(request, MetadataFetchRequest):
        entries = [each.split(":") for each in options.get("records", "").split(",") if each]
        default = bench.core.election.leader_id if leader_id is None else leader_id
        return MetadataFetchResponse(
            error=error,
            leader=LeaderHint(int(options.get("epoch", bench.core.epoch)), default),
            high_watermark=int(options["high_watermark"]) if "high_watermark" in options else None,
            diverging=position(options["diverging"]) if "diverging" in options else None,
            snapshot=position(options["snapshot"]) if "snapshot" in options else None,
            records=tuple(Entry(int(epoch), int(value)) for epoch, value in entries) or None,
        )
    assert isinstance(request, VoteRequest)
    hint = LeaderHint(int(options.get("epoch", request.epoch)), leader_id)
    return VoteResponse(error=error, leader=hint, granted="granted" in command.words)
