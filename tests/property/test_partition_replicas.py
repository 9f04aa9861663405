"""A led partition under any order of appends, fetches, time and answers of the controller."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crabka.broker.replication.follower_progress import FollowerFetch
from crabka.broker.replication.isr_state import ProposedIsr
from crabka.protocol.error_codes import ErrorCode
from tests.support.storage.replicas import EPOCH, LedPartition, replicated_image

followers = st.sampled_from((2, 3))


class CountingConsumer:
    """A waiter that adds up its notifications."""

    waits_for_appends = False

    def __init__(self) -> None:
        self.readable_bytes = 0

    def progressed(self, _partition: Any, readable_bytes: int) -> None:
        assert readable_bytes >= 0
        self.readable_bytes += readable_bytes


class ReplicatedPartitionMachine(RuleBasedStateMachine):
    """The leader, two followers that only know an offset, and a controller that answers when it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.led = LedPartition(replicated_image(1, 2))
        self.consumer = CountingConsumer()
        waiter: Any = self.consumer
        self.led.partition.waiters.add(waiter)
        self.ends = {2: 0, 3: 0}
        self.appended_bytes = 0
        self.rises = 0
        self.high_watermark = 0
        # The ISR as the controller knows it, and its version.
        self.isr: tuple[int, ...] = (1, 2)
        self.partition_epoch = 10

    @property
    def proposal(self) -> ProposedIsr | None:
        replication = self.led.partition.replication
        assert replication is not None
        return replication.isr_state.pending

    @rule(count=st.integers(1, 4))
    def append(self, count: int) -> None:
        self.appended_bytes += self.led.append(count)

    @rule(follower=followers, data=st.data())
    def fetch(self, follower: int, data: st.DataObject) -> None:
        end_offset = self.led.partition.log.log_end_offset
        offset = data.draw(st.integers(self.ends[follower], end_offset), label="offset")
        self.ends[follower] = offset
        fetch = FollowerFetch(offset, 0, follower)
        if not self.led.partition.followers.is_still_caught_up(follower, fetch):
            self.led.partition.followers.fetched(follower, fetch)

    @rule(milliseconds=st.sampled_from((1, 500, 1001)))
    def let_time_pass(self, milliseconds: int) -> None:
        self.led.world.now_ms += milliseconds
        self.led.partition.followers.shrink_isr()

    @precondition(lambda self: self.proposal is not None)
    @rule(refused=st.booleans(), reported=st.booleans())
    def decide(self, refused: bool, reported: bool) -> None:
        """The controller decides; the answer may be overtaken by the metadata."""
        proposal = self.proposal
        assert proposal is not None
        if refused:
            self.led.partition.followers.isr_answered(proposal, ErrorCode.ineligible_replica)
            return
        self.isr = proposal.isr
        self.partition_epoch += 1
        image = replicated_image(*self.isr, leader_epoch=EPOCH, partition_epoch=self.partition_epoch)
        if reported:
            self.led.partition.followers.isr_answered(proposal, ErrorCode.none, image)
        else:
            self.led.become(image)

    @invariant()
    def what_is_committed_is_on_every_replica_in_sync(self) -> None:
        reached = self.led.high_watermark
        assert reached >= self.high_watermark
        self.rises += reached > self.high_watermark
        self.high_watermark = reached
        for follower in self.isr:
            # Who just joined has been waited for; the leader has everything.
            assert follower == 1 or self.ends[follower] >= reached

    @invariant()
    def consumers_are_notified_of_every_byte_once_it_is_committed(self) -> None:
        if self.led.high_watermark == self.led.partition.log.log_end_offset:
            # A rise is reported as one byte at least.
            assert self.appended_bytes <= self.consumer.readable_bytes <= self.appended_bytes + self.rises


TestReplicatedPartition = ReplicatedPartitionMachine.TestCase
TestReplicatedPartition.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
