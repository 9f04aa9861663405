"""An embedded broker that is killed over and over while a producer works."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from crabka.clients.producer.settings import ProducerSettings
from crabka.clients.sync.producer import SyncProducer
from crabka.embedded import Broker
from tests.support.scale import scaled

KILLS = scaled(10, 50)
IN_FLIGHT = 50


class Load:
    """Sends numbers and remembers which of them were acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.acknowledged: list[int] = []
        self._is_over = threading.Event()
        self._progress = threading.Condition()
        self._threads = ThreadPoolExecutor(1)
        self._sending = self._threads.submit(self._send)
        self._sending.add_done_callback(lambda _: self._notify())

    def wait_progress(self) -> None:
        """Wait until more is acknowledged."""
        with self._progress:
            count = len(self.acknowledged)
            self._progress.wait_for(lambda: len(self.acknowledged) > count or self._sending.done())

    def end(self) -> None:
        """Stop, and raise what went wrong."""
        self._is_over.set()
        self._threads.shutdown()
        self._sending.result()

    def _notify(self) -> None:
        with self._progress:
            self._progress.notify_all()

    def _send(self) -> None:
        number = 0
        with SyncProducer(self._bootstrap, ProducerSettings(linger_ms=0)) as producer:
            while not self._is_over.is_set():
                sent = [producer.send("t", b"%d" % each) for each in range(number, number + IN_FLIGHT)]
                for each in sent:
                    each.result()
                self.acknowledged += range(number, number + IN_FLIGHT)
                self._notify()
                number += IN_FLIGHT


def test_no_acknowledged_record_is_lost_and_none_is_written_twice() -> None:
    with Broker() as broker:
        broker.create_topic("t")
        load = Load(broker.bootstrap)
        try:
            for _ in range(KILLS):
                load.wait_progress()
                broker.kill()
                assert not (broker.data_dir / ".kafka_cleanshutdown").exists()
                broker.start()
        finally:
            load.end()
        values = [int(each.value or b"") for each in broker.records("t")]
        assert values == sorted(set(values))
        assert set(load.acknowledged) <= set(values)
