"""Topics of one test: made under names that no other test has, and deleted with it."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

from crabka.embedded.settings import NO_SETTINGS, Settings
from crabka.errors import OperationError

if TYPE_CHECKING:
    from crabka.embedded.under_test import UnderTest

# Kafka takes 249 characters. These leave room for what a test adds, and are enough to recognize a test in a journal.
PREFIX_CHARACTERS: Final = 120


class TopicFactory:
    """Creates topics for one test. Its requests are neither in the journal nor hit by faults."""

    def __init__(self, owner: UnderTest, prefix: str) -> None:
        """Create topics on a broker or a cluster, under names that begin with a prefix."""
        self._owner = owner
        self.prefix = topic_prefix(prefix)
        self._created: list[str] = []

    def __call__(
        self,
        name: str = "topic",
        *,
        partitions: int = 1,
        replicas: int | None = None,
        settings: Settings = NO_SETTINGS,
        exact: bool = False,
    ) -> str:
        """Create a topic and return its name: the prefix of the test and `name`, or with `exact` only `name`.

        `settings` are Kafka's for topics, such as `{"cleanup.policy": "compact"}`. Raises ConfigError, and
        OperationError if the topic exists or the broker refuses it.
        """
        full_name = name if exact else self._free_name(name)
        self._owner.create_topic(full_name, partitions, replicas=replicas, settings=settings)
        self._created.append(full_name)
        return full_name

    def delete(self) -> None:
        """Delete the topics that the test has left."""
        while self._created:
            with contextlib.suppress(OperationError):
                self._owner.delete_topic(self._created.pop())

    def _free_name(self, name: str) -> str:
        full_name, count = f"{self.prefix}-{name}", 1
        while full_name in self._created:
            count += 1
            full_name = f"{self.prefix}-{name}-{count}"
        return full_name


def topic_prefix(text: str) -> str:
    """Return a text, such as the name of a test, with what Kafka takes as the beginning of a topic's name."""
    # Kafka counts `.` and `_` as equal, so of the two only one is kept.
    return re.sub(r"[^a-zA-Z0-9_]+", "-", text).strip("-")[:PREFIX_CHARACTERS]
