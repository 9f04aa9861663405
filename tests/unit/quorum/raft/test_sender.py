from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from crabka.kraft.actions import Send
from crabka.kraft.events import LeaderLost, RequestFailed, ResponseReceived
from crabka.kraft.log_view import OffsetAndEpoch
from crabka.kraft.messages import LeaderHint, VersionsRequest, VersionsResponse, VoteRequest, VoteResponse
from crabka.kraft.voters import Peer, ReplicaKey, VoterEndpoint
from crabka.net import ConnectionLimits, Server
from crabka.ports import Network
from crabka.protocol.apis import ApiKey, encode_response, response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.headers import pack_response, parse_request_header
from crabka.quorum.raft.messages import encode_response as encode_raft_response
from crabka.quorum.raft.sender import PROBE_PAUSE_MS, NetworkDialer, RaftSender
from crabka.testing import SimulatedNetwork, VirtualTimeLoop
from tests.support.async_tests import run_with

PEER = Peer(2, (VoterEndpoint("CONTROLLER", "peer", 9093),))
VOTE = VoteRequest(cluster_id="c", candidate=ReplicaKey(1), epoch=1, last=OffsetAndEpoch(0, 0))
PRE_VOTE = VoteRequest(cluster_id="c", candidate=ReplicaKey(1), epoch=1, last=OffsetAndEpoch(0, 0), pre_vote=True)
GRANTED = VoteResponse(error=ErrorCode.none, leader=LeaderHint(1), granted=True)


class Peers:
    """A peer that grants votes, up to a version of Vote; `silent` makes it answer nothing but ApiVersions."""

    def __init__(self, network: Network, vote_version: int = 2) -> None:
        self.silent = False
        self.connections: set[int] = set()
        self._vote_version = vote_version
        self.server = Server(network, self._dispatch, ConnectionLimits(max_idle_ms=-1))

    def _dispatch(self, info: Any, frame: memoryview) -> Any:
        header = parse_request_header(frame)
        self.connections.add(info.connection_id)
        types = response_types(header.api_key, header.api_version)
        if header.api_key == ApiKey.API_VERSIONS:
            kraft = types.new("SupportedFeatureKey", name="kraft.version", min_version=0, max_version=1)
            keys = [
                types.new("ApiVersion", api_key=ApiKey.VOTE, min_version=0, max_version=self._vote_version),
                types.new("ApiVersion", api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4),
            ]
            body = types.message(error_code=0, api_keys=keys, throttle_time=0, supported_features=[kraft])
        elif self.silent:
            return asyncio.get_running_loop().create_future()
        else:
            body = encode_raft_response(ApiKey.VOTE, header.api_version, GRANTED)
        return [pack_response(header.api_key, header.api_version, header.correlation_id, encode_response(body))]


def run(main: Callable[[RaftSender, Peers, SimulatedNetwork], Awaitable[None]], vote_version: int = 2) -> None:
    loop = VirtualTimeLoop()

    async def wrapped() -> None:
        network = SimulatedNetwork(loop, random.Random(1))
        peers = Peers(network.host("peer"), vote_version)
        await peers.server.listen("peer", 9093)
        sender = RaftSender(NetworkDialer(network.host("me"), "raft-client-1"), 2000)
        try:
            await main(sender, peers, network)
        finally:
            await sender.close()
            network.crash("peer")
            await asyncio.sleep(0.01)

    loop.run(wrapped())


@run_with(run)
async def test_requests_are_answered_over_one_connection(
    sender: RaftSender, peers: Peers, network: SimulatedNetwork, /
) -> None:
    for number in (5, 6):
        assert await sender.send(Send(number, PEER, VOTE)) == ResponseReceived(number, GRANTED)
    assert len(peers.connections) == 1


@run_with(run)
async def test_the_versions_of_a_new_voter_are_asked(
    sender: RaftSender, peers: Peers, network: SimulatedNetwork, /
) -> None:
    expected = VersionsResponse(error=ErrorCode.none, kraft_versions=(0, 1))
    assert await sender.send(Send(1, PEER, VersionsRequest())) == ResponseReceived(1, expected)


@run_with(run, vote_version=1)
async def test_a_peer_without_pre_votes_does_not_support_them(
    sender: RaftSender, peers: Peers, network: SimulatedNetwork, /
) -> None:
    assert await sender.send(Send(1, PEER, PRE_VOTE)) == RequestFailed(1, unsupported=True)
    assert isinstance(await sender.send(Send(2, PEER, VOTE)), ResponseReceived)


@run_with(run)
async def test_a_silent_peer_fails_after_the_time_out_and_is_not_taken_for_lost(
    sender: RaftSender, peers: Peers, network: SimulatedNetwork, /
) -> None:
    peers.silent = True
    loop = asyncio.get_running_loop()
    start = loop.time()
    assert await sender.send_watched(Send(1, PEER, VOTE)) == (RequestFailed(1), False)
    assert loop.time() - start < 2.1
    assert await sender.look_for(PEER) is None
    peers.silent = False
    assert isinstance(await sender.send(Send(2, PEER, VOTE)), ResponseReceived)


@run_with(run)
async def test_a_peer_whose_ports_refuse_twice_is_lost(
    sender: RaftSender, peers: Peers, network: SimulatedNetwork, /
) -> None:
    await sender.send(Send(1, PEER, VOTE))
    network.crash("peer")
    assert await sender.send_watched(Send(2, PEER, VOTE)) == (RequestFailed(2), True)
    start = asyncio.get_running_loop().time()
    assert await sender.look_for(PEER) == LeaderLost(2)
    assert asyncio.get_running_loop().time() - start >= PROBE_PAUSE_MS / 1000


@run_with(run)
async def test_a_peer_that_cannot_be_reached_or_resolved_is_not_lost(
    sender: RaftSender, peers: Peers, network: SimulatedNetwork, /
) -> None:
    unknown = Peer(3, (VoterEndpoint("CONTROLLER", "nowhere", 9093),))
    assert await sender.look_for(unknown) is None
    assert await sender.look_for(Peer(3, ())) is None
    assert await sender.send(Send(1, Peer(3, ()), VOTE)) == RequestFailed(1)
    network.isolate("peer")
    assert await sender.look_for(PEER) is None
    both = Peer(2, (*PEER.endpoints, VoterEndpoint("CONTROLLER", "me", 1)))
    network.heal_all()
    assert await sender.look_for(both) is None


@run_with(run)
async def test_the_next_endpoint_is_tried_and_a_moved_peer_is_dialled_anew(
    sender: RaftSender, peers: Peers, network: SimulatedNetwork, /
) -> None:
    moved = Peer(2, (VoterEndpoint("CONTROLLER", "nowhere", 9093), *PEER.endpoints))
    await sender.send(Send(1, PEER, VOTE))
    assert isinstance(await sender.send(Send(2, moved, VOTE)), ResponseReceived)
    assert len(peers.connections) == 2
