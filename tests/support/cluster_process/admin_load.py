"""A client that changes metadata all the time: each request must succeed or be refused so that it may try again."""

from __future__ import annotations

import contextlib
import itertools
import threading
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.cluster_process.load import QUICK_CLIENT

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

REQUEST_SECONDS = 10.0
# What a client tries again although its library does not call it retriable: no answer came, whatever became of it.
UNANSWERED = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT_QUEUE}


def _was_done_before(error: KafkaError, attempt: int) -> bool:
    """Whether the error says that an earlier attempt was carried out and only its answer was lost.

    The first attempt of a client may be the second of the broker, which asks the next controller by itself when the one
    that it had asked resigns.
    """
    if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        return attempt > 1
    return bool(error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART)


class MetadataLoad:
    """Creates and deletes one topic after the other in a thread of its own, each until it is done."""

    def __init__(self, bootstrap: str, replicas: int) -> None:
        """Prepare the client; nothing is asked before start()."""
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **QUICK_CLIENT})
        self._replicas = replicas
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metadata-load")
        self.done_count = 0
        self.retried: list[str] = []
        self.refused: list[str] = []

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more."""
        self._stopping.set()
        self._thread.join()

    def check(self) -> None:
        """Raise unless every request succeeded or asked to be tried again."""
        assert not self.refused, f"{len(self.refused)} requests were refused for good: {self.refused[:5]}"

    def _run(self) -> None:
        for number in itertools.count():
            name = f"short-lived-{number}"
            created = self._until_done(self._create, name)
            # Once a broker reports it, the topic is committed: only its deletion can make it unknown again.
            if not (created and self._is_told(name) and self._until_done(self._delete, name)):
                return

    def _is_told(self, name: str) -> bool:
        while not self._stopping.is_set():
            with contextlib.suppress(KafkaException):
                if name in self._admin.list_topics(timeout=REQUEST_SECONDS).topics:
                    return True
            self._stopping.wait(0.01)
        return False

    def _create(self, name: str) -> Future[None]:
        created: Future[None] = self._admin.create_topics(
            [NewTopic(name, 1, self._replicas)], operation_timeout=REQUEST_SECONDS, request_timeout=REQUEST_SECONDS
        )[name]
        return created

    def _delete(self, name: str) -> Future[None]:
        deleted: Future[None] = self._admin.delete_topics(
            [name], operation_timeout=REQUEST_SECONDS, request_timeout=REQUEST_SECONDS
        )[name]
        return deleted

    def _until_done(self, ask: Callable[[str], Future[None]], name: str) -> bool:
        """Ask until it is done; returns whether to go on."""
        attempt = 0
        while not self._stopping.is_set():
            attempt += 1
            try:
                ask(name).result(2 * REQUEST_SECONDS)
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if _was_done_before(error, attempt):
                    return True
                if not error.retriable() and error.code() not in UNANSWERED:
                    self.refused.append(str(error))
                    return False
                self.retried.append(str(error))
                self._stopping.wait(0.05)
            else:
                self.done_count += 1
                return True
        return False
