"""Log dirs chosen for replicas to come."""

from __future__ import annotations

from crabka.broker.logdirs import choices as module
from crabka.broker.logdirs.choices import RememberedChoices
from crabka.ids import TopicPartition

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_choice_is_taken_once_and_a_later_one_replaces_it() -> None:
    choices = RememberedChoices()
    choices.remember(ONE, "/a")
    choices.remember(ONE, "/b")
    assert (len(choices), choices.get(ONE), choices.get(TWO)) == (1, "/b", None)
    assert choices.take(ONE) == "/b"
    assert choices.take(ONE) is None


def test_a_choice_can_be_forgotten() -> None:
    choices = RememberedChoices()
    choices.remember(ONE, "/a")
    choices.forget(ONE)
    choices.forget(TWO)
    assert len(choices) == 0


def test_the_oldest_of_too_many_choices_goes() -> None:
    choices = RememberedChoices()
    for index in range(module.MAX_CHOICES + 1):
        choices.remember(TopicPartition("t", index), "/a")
    assert len(choices) == module.MAX_CHOICES
    assert choices.get(ONE) is None
