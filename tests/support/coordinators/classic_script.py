"""The commands of scripts of classic groups (tests/support/scripts.py). A client has the name of its first word.

group [SETTING=N...]                        a new group
join NAME [FLAG...] [FIELD=VALUE...]        flags: forgets, needs_id, new_group, skips
sync NAME [MEMBER:ASSIGNMENT...]            heartbeat NAME   commit NAME   leave NAME   remove MEMBER/INSTANCE...
stable NAME[/INSTANCE]...                   the clients join and sync; each gets its own id as assignment
pass MS [NAME...]                           time passes; the named clients send heartbeats every second
hold, stored [ERROR]                        keep records back; their outcome
retire ERROR, show
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabka.broker.groups.messages import (
    Action,
    Answer,
    CommitAttempt,
    Heartbeat,
    JoinResult,
    LeaveResult,
    MemberIdentity,
    Persist,
    Sync,
    SyncResult,
    Transitioned,
)
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.members import CoreDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.support.scripts import Command

_FLAGS = {
    "needs_id": "requires_known_member_id",
    "new_group": "is_new_group",
    "skips": "supports_skipping_assignment",
}


@dataclass
class Client:
    """What a client knows of itself."""

    name: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    ids: int = 0


class ClassicScript:
    """A classic group and its clients."""

    def __init__(self) -> None:
        self._core = CoreDriver()
        self._clients: dict[str, Client] = {}
        self._requests = 0

    def __call__(self, command: Command) -> Iterable[str]:
        """Run a command; return the actions of the core, one a line."""
        self._core.trace.clear()
        run: Callable[..., None] = getattr(self, f"_{command.name}")
        run(*command.words, **command.options)
        if command.name == "show":
            return self._state()
        return [_text(action, at_ms if command.name == "pass" else None) for at_ms, action in self._core.trace]

    # -- commands ------------------------------------------------------------------------------------------------

    def _group(self, **settings: str) -> None:
        self._core = CoreDriver(**{name: int(value) for name, value in settings.items()})
        self._clients.clear()

    def _join(self, name: str, *flags: str, **options: str) -> None:
        client = self._client(name)
        client.instance_id = options.pop("instance", client.instance_id)
        if "forgets" in flags:
            client.member_id = ""
        client.ids += not client.member_id
        fields: dict[str, Any] = {_FLAGS[flag]: True for flag in flags if flag != "forgets"}
        if "protocols" in options:
            pairs = [each.partition(":") for each in options.pop("protocols").split(",") if each]
            fields["protocols"] = tuple((protocol, metadata.encode()) for protocol, _, metadata in pairs)
        member_id = options.pop("member", client.member_id)
        fields |= {key: int(value) if value.isdecimal() else value for key, value in options.items()}
        fields |= {"instance_id": client.instance_id, "new_member_id": f"{name}-{client.ids}"}
        self._core.join(self._reply(client, "join"), member_id, **fields)
        self._learn()

    def _sync(self, name: str, *assignments: str, **options: str) -> None:
        client = self._client(name)
        pairs = dict(each.split(":") for each in assignments)
        sync = Sync(
            reply=self._reply(client, "sync"),
            assignments={member_id: value.encode() for member_id, value in pairs.items()},
            **self._identity(client, options),
        )
        self._core.step(sync)

    def _heartbeat(self, name: str, **options: str) -> None:
        client = self._client(name)
        self._core.step(Heartbeat(reply=self._reply(client, "heartbeat"), **self._identity(client, options)))

    def _commit(self, name: str, **options: str) -> None:
        client = self._client(name)
        self._core.step(CommitAttempt(reply=self._reply(client, "commit"), **self._identity(client, options)))

    def _leave(self, *names: str) -> None:
        self._remove(*(self._client(name).member_id for name in names))

    def _remove(self, *members: str) -> None:
        pairs = [each.partition("/") for each in members]
        identities = [MemberIdentity(member_id, instance_id or None) for member_id, _, instance_id in pairs]
        self._core.leave(self._reply(Client("admin"), "leave"), *identities)

    def _stable(self, *names: str) -> None:
        for each in names:
            name, _, instance_id = each.partition("/")
            self._client(name).instance_id = instance_id or None
            self._join(name)
        clients = [self._client(each.partition("/")[0]) for each in names]
        while any(client.generation < self._core.group.membership.generation for client in clients):
            leader_id = self._core.group.membership.leader_id
            self._join(next(client.name for client in clients if client.member_id == leader_id))
        leader_id = self._core.group.membership.leader_id
        for client in sorted(clients, key=lambda each: each.member_id == leader_id):
            self._sync(client.name, *(f"{each.member_id}:{each.member_id}" for each in clients))
        self._core.trace.clear()

    def _pass(self, milliseconds: str, *names: str) -> None:
        left = int(milliseconds)
        while left > 0:
            step = min(left, 1_000) if names else left
            for name in names:
                self._heartbeat(name)
                self._core.trace[:] = [each for each in self._core.trace if not _is_heartbeat(each[1])]
            self._core.pass_time(step)
            left -= step
        self._learn()

    def _hold(self) -> None:
        self._core.holds_stores = True

    def _stored(self, error: str = "none") -> None:
        self._core.holds_stores = False
        self._core.finish_stores(ErrorCode[error])

    def _retire(self, error: str) -> None:
        self._core.trace += [(0, action) for action in self._core.group.retire(ErrorCode[error], self._core.now_ms)]

    def _show(self) -> None:
        """Return the state."""

    def _state(self) -> list[str]:
        group = self._core.group.membership
        members = [f"{each.member_id}={each.assignment.decode()}" for each in group.members.values()]
        instances = [f"{instance_id}={member_id}" for instance_id, member_id in group.static_members.items()]
        return [
            f"{group.state.value} generation={group.generation} protocol={group.protocol} leader={group.leader_id}",
            *(["members " + " ".join(members)] if members else []),
            *(["instances " + " ".join(instances)] if instances else []),
        ]

    # -- clients -------------------------------------------------------------------------------------------------

    def _client(self, name: str) -> Client:
        return self._clients.setdefault(name, Client(name))

    def _reply(self, client: Client, kind: str) -> tuple[str, str, int]:
        self._requests += 1
        return client.name, kind, self._requests

    def _identity(self, client: Client, options: dict[str, str]) -> dict[str, Any]:
        return {
            "member_id": options.get("member", client.member_id),
            "instance_id": client.instance_id,
            "generation": int(options.get("generation", client.generation)),
        }

    def _learn(self) -> None:
        """Give the answers to joins to their clients."""
        for (name, _, _), result in self._core.answers.items():
            if isinstance(result, JoinResult) and result.error_code in (ErrorCode.none, ErrorCode.member_id_required):
                client = self._client(name)
                client.member_id, client.generation = result.member_id, result.generation


def _is_heartbeat(action: Action) -> bool:
    return isinstance(action, Answer) and action.reply[1] == "heartbeat"


def _text(action: Action, at_ms: int | None) -> str:
    prefix = "" if at_ms is None else f"{at_ms} ms: "
    match action:
        case Answer(reply, result):
            return f"{prefix}{reply[0]} {reply[1]}: {_result(result)}"
        case Persist(snapshot, done):
            members = " ".join(f"{each.member_id}={each.assignment.decode()}" for each in snapshot.members)
            return f"{prefix}store generation={snapshot.generation} members [{members}] then {type(done).__name__}"
        case Transitioned(old, new, _, reason):
            return f"{prefix}{old} -> {new}: {reason}"


def _result(result: Any) -> str:
    match result:
        case JoinResult(ErrorCode.none):
            members = " ".join(each.member_id for each in result.members)
            skips = ", skip the assignment" if result.skip_assignment else ""
            return (
                f"{result.member_id} generation={result.generation} protocol={result.protocol} leader={result.leader}"
                f" members [{members}]{skips}"
            )
        case JoinResult(ErrorCode.member_id_required as code, member_id):
            return f"{code.name} {member_id}"
        case SyncResult(ErrorCode.none):
            return f"assignment {result.assignment.decode()}"
        case LeaveResult(ErrorCode.none, rows):
            return " ".join(f"{'/'.join(filter(None, who))}={code.name}" for who, code in rows)
        case ErrorCode():
            return result.name
        case _:
            return str(result.error_code.name)
