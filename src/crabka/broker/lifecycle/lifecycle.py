"""A broker's life with the controller: registration, heartbeats, controlled shutdown (Kafka's BrokerLifecycleManager).

    starting → registered (fenced) → serving (unfenced) → stopping → gone
                     ↑                      │ unregistered while it lives
                     └──────────────────────┘

A registration is repeated until the controller takes it: a broker that comes back at once may have to wait until the
session of its last run is over. Heartbeats report how far the broker has read the metadata, which log dirs it lost and
what it wants. One that is due at once (a dir was lost, the broker wants to stop) does not wait for the interval.

A broker whose epoch the controller no longer knows was unregistered, or another process took its id. It registers anew
under the rules of a start: as a new registration, never clean, and not while another incarnation lives. If that fails
for `initial.broker.registration.timeout.ms`, the node stops and says why. (Kafka's broker sends its stale heartbeats
until it is restarted.)
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from crabka.errors import ConfigError, CrabkaError, InvariantError, OperationError
from crabka.metadata.features import SUPPORTED_FEATURES
from crabka.protocol.apis import ApiKey
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Sequence

    from crabka.broker.controller_link.channel import ControllerRequests
    from crabka.broker.controller_link.identity import BrokerIdentity
    from crabka.config.server import ServerConfig
    from crabka.ids import DirectoryId
    from crabka.metadata.cluster import Endpoint
    from crabka.ports import Runtime
    from crabka.protocol.apis import MessageTypes

logger = logging.getLogger(__name__)

# A broker that is about to serve, or to stop, reports again at once.
SOON_MS: Final = 10
# While it waits for leave to stop, it asks less and less often.
LONGEST_STOP_PAUSE_MS: Final = 200
# As Kafka: the stop does not wait for longer.
LONGEST_RETIREMENT_MS: Final = 300_000
REGISTRATION_PAUSE_MS: Final = 100
# Registrations that another try can mend.
_PASSING = frozenset(
    {
        ErrorCode.duplicate_broker_registration,
        ErrorCode.request_timed_out,
        ErrorCode.not_controller,
        ErrorCode.unknown_server_error,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingBroker:
    """What a broker says of itself when it registers."""

    cluster_id: str
    incarnation_id: uuid.UUID
    endpoints: Sequence[Endpoint]
    log_dirs: Sequence[DirectoryId]
    # The epoch of the run before if that stopped cleanly, else -1.
    previous_epoch: int


class BrokerLifecycle:
    """Registers one broker and keeps its session."""

    def __init__(
        self,
        config: ServerConfig,
        runtime: Runtime,
        controller: ControllerRequests,
        identity: BrokerIdentity,
        *,
        metadata_offset: Callable[[], int],
        fail: Callable[[CrabkaError], None],
    ) -> None:
        self._fail = fail
        self._broker: StartingBroker | None = None
        self._config = config
        self._runtime = runtime
        self._controller = controller
        self._identity = identity
        self._metadata_offset = metadata_offset
        self._offline_dirs: dict[DirectoryId, None] = {}
        # Log dir -> whether the controller knows that it failed.
        self._acknowledged: dict[DirectoryId, asyncio.Event] = {}
        self._cordoned_dirs: list[DirectoryId] | None = None
        self._wants_fence = True
        self._wants_stop = False
        self._due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._last_answer_ms = 0
        self._stop_pause_ms = SOON_MS // 2
        self._unfenced = asyncio.Event()
        self._may_stop = asyncio.Event()

    async def register(self, broker: StartingBroker) -> int:
        """Register until it succeeds; return the broker epoch.

        Raises ConfigError when the controller refuses this broker for good, or did not take it within
        `initial.broker.registration.timeout.ms`.
        """
        self._broker = broker
        limit_ms = self._config.initial_broker_registration_timeout_ms
        reason = "no controller answered"
        try:
            async with asyncio.timeout(limit_ms / 1000):
                while True:
                    error_code, epoch = await self._try_register(broker)
                    if error_code is ErrorCode.none:
                        self._identity.broker_epoch = epoch
                        self._last_answer_ms = self._runtime.clock.monotonic_ms()
                        return epoch
                    if error_code not in _PASSING:
                        raise ConfigError(f"the controller refuses this broker: {error_code.name}")
                    if error_code.name != reason:
                        reason = error_code.name
                        logger.info("not registered yet: %s", reason)
                    await asyncio.sleep(REGISTRATION_PAUSE_MS / 1000)
        except TimeoutError as error:
            raise ConfigError(f"the broker could not be registered within {limit_ms} ms: {reason}") from error

    def start(self) -> None:
        """Begin to send heartbeats; the broker stays fenced until it asks for more."""
        self._task = asyncio.create_task(self._run(), name="broker-heartbeats")

    async def serve(self) -> None:
        """Ask to be unfenced and wait for it."""
        self._wants_fence = False
        self._due.set()
        await self._unfenced.wait()

    def lose_directories(self, directories: Sequence[DirectoryId]) -> None:
        """Report failed log dirs at once."""
        self._offline_dirs.update(dict.fromkeys(directories))
        self._due.set()

    async def wait_acknowledged(self, directory: DirectoryId) -> None:
        """Wait until the controller knows that a log dir failed."""
        await self._acknowledged.setdefault(directory, asyncio.Event()).wait()

    def cordon_directories(self, directories: Sequence[DirectoryId] | None) -> None:
        """Report which log dirs take no new replicas, at once if that is new; None while the feature is off."""
        wanted = None if directories is None else list(directories)
        if wanted != self._cordoned_dirs:
            self._cordoned_dirs = wanted
            self._due.set()

    async def retire(self) -> None:
        """Hand over what this broker leads; return when it may stop, or when no controller can allow it."""
        if self._task is None or self._task.done():
            return
        self._wants_stop = True
        self._due.set()
        began_ms = self._runtime.clock.monotonic_ms()
        while not self._may_stop.is_set():
            now_ms = self._runtime.clock.monotonic_ms()
            silent_ms = now_ms - self._last_answer_ms
            if now_ms - began_ms >= LONGEST_RETIREMENT_MS:
                logger.warning("stopping without leave: it was not given within %d ms", LONGEST_RETIREMENT_MS)
                return
            left_ms = self._config.broker_session_timeout_ms - silent_ms
            if left_ms <= 0:
                logger.warning("stopping without leave: no controller answered for %d ms", silent_ms)
                return
            try:
                async with asyncio.timeout(left_ms / 1000):
                    await self._may_stop.wait()
            except TimeoutError:
                continue

    async def close(self) -> None:
        """Send no more heartbeats."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _try_register(self, broker: StartingBroker) -> tuple[ErrorCode, int]:
        config = self._config

        def build(types: MessageTypes) -> Any:
            return types.message(
                broker_id=config.node_id,
                cluster_id=broker.cluster_id,
                incarnation_id=broker.incarnation_id,
                listeners=[types.new("Listener", **each._asdict()) for each in broker.endpoints],
                features=[
                    types.new("Feature", name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in SUPPORTED_FEATURES.items()
                ],
                rack=config.broker_rack,
                is_migrating_zk_broker=False,
                log_dirs=list(broker.log_dirs),
                previous_broker_epoch=broker.previous_epoch,
            )

        try:
            answer = await self._controller.request(ApiKey.BROKER_REGISTRATION, build)
        except OperationError as error:
            return error.error_code, -1
        return answer.error_code, answer.broker_epoch

    async def _run(self) -> None:
        while True:
            try:
                pause_ms = await self._beat()
            except InvariantError as error:
                self._fail(error)
                return
            except Exception:
                # Without heartbeats the broker would be fenced for good.
                logger.exception("a heartbeat failed")
                pause_ms = self._config.broker_heartbeat_interval_ms
            try:
                async with asyncio.timeout(pause_ms / 1000):
                    await self._due.wait()
            except TimeoutError:
                pass

    async def _beat(self) -> int:
        """Send one heartbeat; return how long to wait for the next."""
        self._due.clear()
        wants_fence, wants_stop = self._wants_fence, self._wants_stop
        offline, cordoned = list(self._offline_dirs), self._cordoned_dirs
        try:
            answer = await self._controller.request(
                ApiKey.BROKER_HEARTBEAT,
                lambda types: types.message(
                    broker_id=self._identity.node_id,
                    broker_epoch=self._identity.broker_epoch,
                    current_metadata_offset=self._metadata_offset(),
                    want_fence=wants_fence,
                    want_shut_down=wants_stop,
                    offline_log_dirs=offline,
                    cordoned_log_dirs=cordoned,
                ),
            )
        except InvariantError:
            raise
        except CrabkaError as error:
            logger.warning("the controller did not take a heartbeat: %s", error)
            return SOON_MS
        if answer.error_code is ErrorCode.stale_broker_epoch:
            return await self._register_anew()
        if answer.error_code is not ErrorCode.none:
            logger.warning("the controller refuses heartbeats: %s", answer.error_code.name)
            return self._config.broker_heartbeat_interval_ms
        self._last_answer_ms = self._runtime.clock.monotonic_ms()
        for directory in offline:
            self._acknowledged.setdefault(directory, asyncio.Event()).set()
        if answer.should_shut_down:
            self._may_stop.set()
        if not answer.is_fenced:
            self._unfenced.set()
        if wants_stop:
            self._stop_pause_ms = min(self._stop_pause_ms * 2, LONGEST_STOP_PAUSE_MS)
            return self._stop_pause_ms
        return SOON_MS if answer.is_fenced and not wants_fence else self._config.broker_heartbeat_interval_ms

    async def _register_anew(self) -> int:
        """The controller does not know this registration any more; return how long to wait for the next heartbeat."""
        if self._wants_stop or self._broker is None:
            # There is nothing left to hand over.
            self._may_stop.set()
            return self._config.broker_heartbeat_interval_ms
        stale = self._identity.broker_epoch
        log_dirs = [directory for directory in self._broker.log_dirs if directory not in self._offline_dirs]
        try:
            epoch = await self.register(replace(self._broker, log_dirs=log_dirs, previous_epoch=-1))
        except ConfigError as error:
            self._fail(ConfigError(f"this broker is no longer registered and cannot register again: {error}"))
            return self._config.broker_heartbeat_interval_ms
        logger.warning("this broker was unregistered while it ran: epoch %d is now %d", stale, epoch)
        return SOON_MS
