"""The transaction manager against a coordinator in memory: phases, retries and errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from crabka.clients.cluster.cluster import Cluster
from crabka.clients.errors import (
    AbortableTransactionError,
    ClientNetworkError,
    FatalTransactionError,
    ProducerFencedError,
    TransactionStateError,
)
from crabka.clients.producer.transaction_messages import GroupMembership, OffsetToCommit
from crabka.clients.producer.transactions import TransactionLimits, TransactionManager, TransactionPhase
from crabka.ids import TopicPartition
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode
from tests.support.async_tests import run_with
from tests.support.clients.scripted_broker import DisconnectError
from tests.support.clients.simulation import ClientSimulation, simulate
from tests.support.coordinators.memory_transactions import MemoryTransactions

T0 = TopicPartition("t", 0)
LIMITS = TransactionLimits(timeout_ms=60_000, max_block_ms=5_000)
GROUP = GroupMembership("g")
Test = Callable[[MemoryTransactions, TransactionManager], Awaitable[None]]
both_versions = pytest.mark.parametrize("version", [1, 2])


def manager(cluster: Cluster) -> TransactionManager:
    return TransactionManager(cluster, "id", LIMITS)


def run(test: Test, *, version: int = 2) -> None:
    async def main(simulation: ClientSimulation) -> None:
        simulation.brokers.create_topic("t", 2)
        coordinator = MemoryTransactions(simulation.brokers, version=version)
        async with simulation.connect() as cluster:
            await test(coordinator, manager(cluster))

    simulate(main, node_ids=(1, 2))


async def start(transactions: TransactionManager) -> None:
    """Open a transaction that the coordinator knows of."""
    await transactions.init()
    transactions.begin()
    await transactions.send_offsets({T0: OffsetToCommit(5)}, GROUP)


async def end(transactions: TransactionManager, *, commit: bool) -> None:
    transactions.start_ending(commit=commit)
    await transactions.end(commit=commit)


@both_versions
@pytest.mark.parametrize("commit", [True, False])
@run_with(lambda test, version: run(test, version=version))
async def test_offsets_count_once_the_transaction_is_committed(
    coordinator: MemoryTransactions, transactions: TransactionManager, /, version: int, commit: bool
) -> None:
    await start(transactions)
    assert coordinator.committed == {}
    await end(transactions, commit=commit)
    assert coordinator.committed == ({"g": {T0: 5}} if commit else {})
    assert transactions.phase is TransactionPhase.READY
    asked = coordinator.cluster.asked(ApiKey.ADD_OFFSETS_TO_TXN)
    assert len(asked) == (1 if version == 1 else 0)


@run_with(run, version=1)
async def test_partitions_are_reported_to_coordinators_that_do_not_add_them(
    coordinator: MemoryTransactions, transactions: TransactionManager, /
) -> None:
    await transactions.init()
    transactions.begin()
    transactions.add(T0)
    transactions.add(T0)
    assert not transactions.holds(T0)
    await transactions.add_pending()
    await transactions.add_pending()
    assert transactions.holds(T0)
    assert len(coordinator.cluster.asked(ApiKey.ADD_PARTITIONS_TO_TXN)) == 1
    assert transactions.max_produce_version == 11


@run_with(run)
async def test_partitions_are_added_by_brokers_in_version_2(
    coordinator: MemoryTransactions, transactions: TransactionManager, /
) -> None:
    await transactions.init()
    transactions.begin()
    transactions.add(T0)
    assert transactions.holds(T0)
    await transactions.add_pending()
    assert coordinator.cluster.asked(ApiKey.ADD_PARTITIONS_TO_TXN) == []
    assert transactions.max_produce_version is None
    before = transactions.identity
    await end(transactions, commit=False)
    # The end bumps the epoch, so that nothing late of this transaction can come into the next.
    assert before is not None
    assert transactions.identity == before._replace(producer_epoch=before.producer_epoch + 1)


@both_versions
@run_with(lambda test, version: run(test, version=version))
async def test_empty_transactions_are_not_reported_to_anybody(
    coordinator: MemoryTransactions, transactions: TransactionManager, /
) -> None:
    await transactions.init()
    for commit in (True, False):
        transactions.begin()
        await transactions.send_offsets({}, GROUP)
        await end(transactions, commit=commit)
    assert coordinator.cluster.asked(ApiKey.END_TXN) == []


@both_versions
@pytest.mark.parametrize(
    "fault",
    [
        DisconnectError,
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.concurrent_transactions,
    ],
)
@run_with(lambda test, version: run(test, version=version))
async def test_passing_errors_are_waited_out(
    coordinator: MemoryTransactions, transactions: TransactionManager, /, fault: ErrorCode | type[DisconnectError]
) -> None:
    for api_key in (
        ApiKey.FIND_COORDINATOR,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    ):
        coordinator.cluster.fail_next(api_key, fault, fault)
    await start(transactions)
    await end(transactions, commit=True)
    assert coordinator.committed == {"g": {T0: 5}}


@both_versions
@run_with(lambda test, version: run(test, version=version))
async def test_coordinator_that_moved_is_found_again(
    coordinator: MemoryTransactions, transactions: TransactionManager, /
) -> None:
    await start(transactions)
    coordinator.node_id = 2
    await end(transactions, commit=True)
    assert coordinator.ends == [True]


@both_versions
@run_with(lambda test, version: run(test, version=version))
async def test_commit_whose_answer_is_lost_happens_once(
    coordinator: MemoryTransactions, transactions: TransactionManager, /
) -> None:
    await start(transactions)
    coordinator.lose_answers[ApiKey.END_TXN] = 2
    await end(transactions, commit=True)
    assert coordinator.ends == [True]
    transactions.begin()
    await transactions.send_offsets({T0: OffsetToCommit(6)}, GROUP)
    await end(transactions, commit=True)
    assert coordinator.committed == {"g": {T0: 6}}


@both_versions
@pytest.mark.parametrize("fault", [DisconnectError, ErrorCode.concurrent_transactions])
@run_with(lambda test, version: run(test, version=version))
async def test_commit_that_runs_out_of_time_is_called_again(
    coordinator: MemoryTransactions, transactions: TransactionManager, /, fault: ErrorCode | type[DisconnectError]
) -> None:
    await start(transactions)
    coordinator.cluster.fail_next(ApiKey.END_TXN, *[fault] * 1_000)
    with pytest.raises(ClientNetworkError):
        await end(transactions, commit=True)
    assert transactions.phase is TransactionPhase.COMMITTING
    with pytest.raises(TransactionStateError):
        transactions.start_ending(commit=False)
    coordinator.cluster.faults.clear()
    await end(transactions, commit=True)
    assert coordinator.committed == {"g": {T0: 5}}


@both_versions
@run_with(lambda test, version: run(test, version=version))
async def test_unclear_additions_spoil_the_transaction_and_the_next_one_is_clean(
    coordinator: MemoryTransactions, transactions: TransactionManager, /, version: int
) -> None:
    await transactions.init()
    transactions.begin()
    api_key = ApiKey.ADD_OFFSETS_TO_TXN if version == 1 else ApiKey.TXN_OFFSET_COMMIT
    coordinator.cluster.fail_next(api_key, *[DisconnectError] * 1_000)
    with pytest.raises(AbortableTransactionError):
        await transactions.send_offsets({T0: OffsetToCommit(5)}, GROUP)
    with pytest.raises(AbortableTransactionError):
        transactions.require_open()
    with pytest.raises(AbortableTransactionError):
        transactions.start_ending(commit=True)
    coordinator.cluster.faults.clear()
    await end(transactions, commit=False)
    transactions.begin()
    await transactions.send_offsets({T0: OffsetToCommit(6)}, GROUP)
    await end(transactions, commit=True)
    assert coordinator.committed == {"g": {T0: 6}}


@both_versions
@run_with(lambda test, version: run(test, version=version))
async def test_abortable_errors_leave_a_producer_that_can_go_on(
    coordinator: MemoryTransactions, transactions: TransactionManager, /
) -> None:
    await start(transactions)
    coordinator.cluster.fail_next(ApiKey.END_TXN, ErrorCode.transaction_abortable)
    with pytest.raises(AbortableTransactionError):
        await end(transactions, commit=True)
    assert transactions.phase is TransactionPhase.MUST_ABORT
    await end(transactions, commit=False)
    assert coordinator.ends == [False]
    transactions.begin()


@both_versions
@run_with(lambda test, version: run(test, version=version))
async def test_lost_sequences_need_another_epoch(
    coordinator: MemoryTransactions, transactions: TransactionManager, /, version: int
) -> None:
    await start(transactions)
    before = transactions.identity
    transactions.lose_sequences()
    transactions.fail(AbortableTransactionError(ErrorCode.request_timed_out, "lost"))
    await end(transactions, commit=False)
    assert transactions.identity != before
    assert len(coordinator.cluster.asked(ApiKey.INIT_PRODUCER_ID)) == (2 if version == 1 else 1)


@both_versions
@run_with(lambda test, version: run(test, version=version))
async def test_forgotten_producers_are_initialised_anew_instead_of_ended(
    coordinator: MemoryTransactions, transactions: TransactionManager, /
) -> None:
    await start(transactions)
    del coordinator.producers["id"]
    with pytest.raises(AbortableTransactionError):
        await end(transactions, commit=True)
    asked = len(coordinator.cluster.asked(ApiKey.END_TXN))
    await end(transactions, commit=False)
    assert len(coordinator.cluster.asked(ApiKey.END_TXN)) == asked
    transactions.begin()
    await transactions.send_offsets({T0: OffsetToCommit(7)}, GROUP)
    await end(transactions, commit=True)
    assert coordinator.committed == {"g": {T0: 7}}


@both_versions
@run_with(lambda test, version: run(test, version=version))
async def test_fenced_producers_can_do_nothing_any_more(
    coordinator: MemoryTransactions, transactions: TransactionManager, /
) -> None:
    await start(transactions)
    coordinator.time_out("id")
    with pytest.raises(ProducerFencedError):
        await end(transactions, commit=True)
    assert transactions.phase is TransactionPhase.FAILED
    calls: list[Callable[[], None]] = [
        transactions.begin,
        transactions.require_open,
        lambda: transactions.start_ending(commit=True),
        lambda: transactions.start_ending(commit=False),
    ]
    for call in calls:
        with pytest.raises(ProducerFencedError):
            call()
    with pytest.raises(ProducerFencedError):
        await transactions.init()


@run_with(run)
async def test_calls_out_of_order_are_refused(
    memory_transactions: MemoryTransactions, transactions: TransactionManager, /
) -> None:
    with pytest.raises(TransactionStateError, match="not initialised"):
        transactions.begin()
    await transactions.init()
    with pytest.raises(TransactionStateError, match="without a transaction"):
        await transactions.init()
    with pytest.raises(TransactionStateError):
        transactions.start_ending(commit=True)
    with pytest.raises(TransactionStateError, match="records are sent in a transaction"):
        transactions.require_open()
    transactions.begin()
    with pytest.raises(TransactionStateError):
        transactions.begin()


@run_with(run)
async def test_init_takes_the_id_over(coordinator: MemoryTransactions, transactions: TransactionManager, /) -> None:
    await start(transactions)
    successor = manager(transactions._cluster)
    await successor.init()
    with pytest.raises(ProducerFencedError):
        await end(transactions, commit=True)
    assert coordinator.committed == {}
    assert successor.phase is TransactionPhase.READY


@run_with(run)
async def test_init_that_is_refused_for_good_is_fatal(
    coordinator: MemoryTransactions, transactions: TransactionManager, /
) -> None:
    coordinator.cluster.fail_next(ApiKey.INIT_PRODUCER_ID, ErrorCode.invalid_transaction_timeout)
    with pytest.raises(FatalTransactionError) as caught:
        await transactions.init()
    assert caught.value.error_code is ErrorCode.invalid_transaction_timeout


@run_with(run, version=1)
async def test_coordinator_without_epochs_to_give_is_reported_clearly(
    coordinator: MemoryTransactions, transactions: TransactionManager, /
) -> None:
    for broker in coordinator.cluster.brokers.values():
        broker.versions[ApiKey.INIT_PRODUCER_ID] = (0, 2)
    await start(transactions)
    transactions.lose_sequences()
    with pytest.raises(FatalTransactionError, match="KIP-360"):
        await end(transactions, commit=False)


@run_with(run)
async def test_broker_without_transactions_is_reported_clearly(
    coordinator: MemoryTransactions, transactions: TransactionManager, /
) -> None:
    for broker in coordinator.cluster.brokers.values():
        del broker.versions[ApiKey.INIT_PRODUCER_ID]
    with pytest.raises(FatalTransactionError, match="INIT_PRODUCER_ID"):
        await transactions.init()
