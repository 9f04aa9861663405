"""The network between simulated replicas: late, lost, doubled and reordered messages, partitions, refused dials."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crabka.errors import require
from crabka.kraft.actions import Send
from crabka.kraft.events import LeaderLost, RequestFailed, RequestReceived, ResponseReceived
from crabka.kraft.messages import MetadataFetchRequest, Request, Response, VoteRequest, VoteResponse
from tests.support.kraft_sim.replica import SETTINGS

if TYPE_CHECKING:
    from tests.support.kraft_sim.replica import SimulatedReplica
    from tests.support.kraft_sim.world import KraftWorld


class SimulatedToken(NamedTuple):
    """Where an answer goes."""

    node_id: int
    incarnation: int
    request_id: int
    request: Request


class SimulatedLinks:
    """All connections."""

    def __init__(self, world: KraftWorld) -> None:
        self._world = world
        self._waiting: dict[tuple[int, int, int], Send] = {}
        # Pairs (from, to) over which nothing goes.
        self.cut: set[tuple[int, int]] = set()
        self.loss = 0.0
        self.doubling = 0.0
        self.max_delay_ms = 4.0

    def send(self, source: SimulatedReplica, action: Send) -> None:
        """Send a request; it has an outcome at the latest after the request time-out."""
        world = self._world
        target_id = action.to.node_id if action.to.node_id >= 0 else action.to.endpoints[0].port
        question = (source.key.node_id, source.incarnation, action.request_id)
        self._waiting[question] = action
        target = world.replicas.get(target_id)
        reachable = (source.key.node_id, target_id) not in self.cut
        if target is None or (reachable and not target.is_running):
            world.later(1.0, lambda: self._refused(source, question, target_id))
            return
        world.later(SETTINGS.request_timeout_ms, lambda: self._fail(source, question))
        token = SimulatedToken(source.key.node_id, source.incarnation, action.request_id, action.request)
        for delay in self._deliveries(source.key.node_id, target_id):
            world.later(delay, lambda: world.deliver(target_id, RequestReceived(token, action.request)))

    def reply(self, source: SimulatedReplica, token: object, response: Response) -> None:
        """Send an answer back."""
        world = self._world
        if not isinstance(token, SimulatedToken):
            world.client_answered(token, response)
            return
        request = token.request
        if isinstance(response, VoteResponse) and isinstance(request, VoteRequest) and not request.pre_vote:
            world.checks.note_vote(source.key, request, granted=response.granted)
        question = token[:3]
        for delay in self._deliveries(source.key.node_id, token.node_id):
            world.later(delay, lambda: self._answer(question, response))

    def _deliveries(self, source: int, target: int) -> list[float]:
        rng = self._world.rng
        if (source, target) in self.cut or rng.random() < self.loss:
            return []
        copies = 2 if rng.random() < self.doubling else 1
        return [rng.random() * self.max_delay_ms for _ in range(copies)]

    def _answer(self, question: tuple[int, int, int], response: Response) -> None:
        # Each copy of an answer reaches the core, which must know that it had it.
        if question in self._waiting:
            del self._waiting[question]
        self._world.deliver(question[0], ResponseReceived(question[2], response), incarnation=question[1])

    def _fail(self, source: SimulatedReplica, question: tuple[int, int, int]) -> None:
        if self._waiting.pop(question, None) is not None:
            self._world.deliver(source.key.node_id, RequestFailed(question[2]), incarnation=question[1])

    def _refused(self, source: SimulatedReplica, question: tuple[int, int, int], target_id: int) -> None:
        action = self._waiting.get(question)
        self._fail(source, question)
        core = source.core
        if action is None or core is None or not isinstance(action.request, MetadataFetchRequest):
            return
        require(action.to.node_id < 0 or action.to.node_id == target_id, "a refused dial to another node")
        if core.leader.leader_id == target_id:
            # The second round of dials.
            self._world.later(20.0, lambda: self._still_refused(source, question[1], target_id))

    def _still_refused(self, source: SimulatedReplica, incarnation: int, target_id: int) -> None:
        target = self._world.replicas.get(target_id)
        if (target is None or not target.is_running) and (source.key.node_id, target_id) not in self.cut:
            self._world.deliver(source.key.node_id, LeaderLost(target_id), incarnation=incarnation)
