"""Kafka's own tools say of topics with a tier on our node what they say on a node of Apache Kafka."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from crabka.cli.session import with_admin
from crabka.ids import TopicPartition
from tests.support.kafka.oracle import run_tool
from tests.support.tiers.turns import (
    FIRST_MS,
    PARTLY_LOCAL,
    REMOTE_ONLY,
    TOPICS,
    CrabkaTurn,
    KafkaTurn,
    Written,
    create_topics,
    take_over,
    wait_tiered,
    write_turn,
)

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("jvm"),
    pytest.mark.allow_leaks("librdkafka keeps threads until it is collected"),
]

TOPIC_TOOL = "org.apache.kafka.tools.TopicCommand"
CONFIG_TOOL = "kafka.admin.ConfigCommand"
OFFSET_TOOL = "org.apache.kafka.tools.GetOffsetShell"
CONSUMER_TOOL = "org.apache.kafka.tools.consumer.ConsoleConsumer"
# In the midst of a segment that is in the tier only.
NEW_START = 103
CHANGED = ["--entity-type", "topics", "--entity-name", "changed"]
FROM_START = ["--topic", REMOTE_ONLY, "--partition", "1", "--offset", "earliest", "--max-messages", "50"]


class Said(NamedTuple):
    """What a tool said, without what differs from run to run."""

    code: int
    out: list[str]
    err: list[str]


class Question(NamedTuple):
    """A call of a tool."""

    tool: str
    arguments: list[str]


def _create(topic: str, *configs: str) -> Question:
    return Question(
        TOPIC_TOOL, ["--create", "--topic", topic, *(word for each in configs for word in ("--config", each))]
    )


def _alter(*change: str) -> Question:
    return Question(CONFIG_TOOL, ["--alter", *CHANGED, *change])


# Of the content that one node wrote; answers do not change it.
ABOUT_CONTENT = {
    **{
        f"offsets {time}": Question(
            OFFSET_TOOL, ["--topic-partitions", f"{REMOTE_ONLY},{PARTLY_LOCAL}", "--time", time]
        )
        for time in ("-1", "-2", "-3", "-4", "-5", "-6", "latest-tiered", str(FIRST_MS + 131), str(10 * FIRST_MS))
    },
    "records": Question(CONSUMER_TOOL, [*FROM_START, "--formatter-property", "print.offset=true"]),
    **{f"describe {name}": Question(TOPIC_TOOL, ["--describe", "--topic", name]) for name in TOPICS},
    **{
        f"configs of {name}": Question(CONFIG_TOOL, ["--describe", "--entity-type", "topics", "--entity-name", name])
        for name in TOPICS
    },
}
REFUSED = {
    "create a compacted one",
    "keep longer locally",
    "keep more locally",
    "copy nothing, keep less",
    "no word",
    "compact it",
    "keep longer than everything",
    "disable",
    "disable by default",
    "stop copying and keep less",
}
# In this order: what is refused leaves everything as it was.
CHANGES = {
    "create a tiered topic": _create("changed", "remote.storage.enable=true", "retention.ms=5000", "retention.bytes=9"),
    "create a compacted one": _create("refused", "remote.storage.enable=true", "cleanup.policy=compact"),
    "keep longer locally": _create(
        "refused", "remote.storage.enable=true", "retention.ms=1000", "local.retention.ms=1001"
    ),
    "keep more locally": _create(
        "refused", "remote.storage.enable=true", "retention.bytes=10", "local.retention.bytes=-1"
    ),
    "copy nothing, keep less": _create(
        "refused", "remote.storage.enable=true", "remote.log.copy.disable=true", "local.retention.ms=1"
    ),
    "no word": _create("refused", "remote.storage.enable=maybe"),
    "compact it": _alter("--add-config", "cleanup.policy=compact"),
    "keep longer than everything": _alter("--add-config", "local.retention.ms=5001"),
    "disable": _alter("--add-config", "remote.storage.enable=false"),
    "disable by default": _alter("--delete-config", "remote.storage.enable"),
    "stop copying": _alter("--add-config", "remote.log.copy.disable=true"),
    "stop copying and keep less": _alter("--add-config", "remote.log.copy.disable=true,local.retention.ms=1"),
    "disable and delete": _alter("--add-config", "remote.storage.enable=false,remote.log.delete.on.disable=true"),
    "what is left": Question(CONFIG_TOOL, ["--describe", *CHANGED]),
    "enable again": _alter("--add-config", "remote.storage.enable=true"),
    "what is there again": Question(CONFIG_TOOL, ["--describe", *CHANGED]),
}

Answers = dict[str, Said]


def _ask(node: KafkaTurn, question: Question) -> Said:
    done = run_tool(question.tool, "--bootstrap-server", node.bootstrap_servers, *question.arguments, check=False)

    def reported(text: str) -> list[str]:
        lines = [line.replace(node.bootstrap_servers, "NODE") for line in text.splitlines()]
        # Stacks of calls hang from the first line of an error.
        return sorted(line for line in lines if line.strip() and not line.startswith(("\tat ", "\t... ")))

    return Said(done.code, reported(done.stdout), reported(done.stderr))


def _ask_all(node: KafkaTurn) -> Answers:
    wait_tiered(node)
    return {name: _ask(node, question) for name, question in (ABOUT_CONTENT | CHANGES).items()}


@pytest.fixture(scope="module")
def answers(jvm: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answers]:
    """What the tools said on our node that wrote the content, and on one of Kafka that took a copy of it over."""
    directory = tmp_path_factory.mktemp("tools")
    ours = CrabkaTurn(directory / "ours")
    with ours:
        create_topics(ours.bootstrap_servers)
        write_turn(ours.bootstrap_servers, Written(), 0)
        wait_tiered(ours)
        place = TopicPartition(REMOTE_ONLY, 1)
        with_admin(ours.bootstrap_servers, lambda admin: admin.delete_records({place: NEW_START}))
    theirs = take_over(KafkaTurn, ours, directory / "theirs")
    with ours, theirs, ThreadPoolExecutor(2) as pool:
        mine, expected = pool.map(_ask_all, (ours, theirs))
    return {"kafka": expected, "crabka": mine}


@pytest.mark.parametrize("name", ABOUT_CONTENT)
def test_tools_show_the_same_content(answers: dict[str, Answers], name: str) -> None:
    assert answers["kafka"][name].code == 0
    assert answers["crabka"][name] == answers["kafka"][name]


@pytest.mark.parametrize("name", CHANGES)
def test_tools_may_change_the_same(answers: dict[str, Answers], name: str) -> None:
    assert answers["crabka"][name] == answers["kafka"][name]


def test_the_changes_are_refused_that_would_lose_data_or_make_no_sense(answers: dict[str, Answers]) -> None:
    assert {name for name in CHANGES if answers["kafka"][name].code != 0} == REFUSED


def test_records_that_were_deleted_in_the_tier_stay_deleted(answers: dict[str, Answers]) -> None:
    assert f"{REMOTE_ONLY}:1:{NEW_START}" in answers["kafka"]["offsets -2"].out
    assert answers["kafka"]["records"].out[0].startswith(f"Offset:{NEW_START}\t")
