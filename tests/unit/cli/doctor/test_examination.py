"""Checks run by themselves, within one deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from crabka.cli.doctor.examination import CheckResult, Request, _answer_ms, _Once, _run, examine_data_dir
from crabka.cli.doctor.finding import NotApplicableError, Outcome, fine
from crabka.cli.doctor.gathering.tables import LakeTables
from crabka.clients.errors import ClientNetworkError
from crabka.errors import CrabkaError
from crabka.testing.virtual_time_loop import VirtualTimeLoop

REQUEST = Request(
    bootstrap="h:1",
    command_config=None,
    timeout_ms=30_000,
    tier_url=None,
    tables=LakeTables(None, (), "delta"),
    source_options={},
)


def result_of(check: Callable[[], Awaitable[Outcome]]) -> CheckResult:
    async def main() -> CheckResult:
        deadline = asyncio.get_running_loop().time() + REQUEST.timeout_ms / 1000
        return await _run("c", check, asyncio.Semaphore(1), deadline, REQUEST)

    loop = VirtualTimeLoop()
    try:
        return loop.run(main())
    finally:
        loop.close()


def test_an_outcome_is_the_result() -> None:
    async def check() -> Outcome:
        return Outcome([fine("all")], ["a part"])

    assert result_of(check) == CheckResult("c", [fine("all")], ["a part"])


def test_a_check_without_a_matter_is_skipped() -> None:
    async def check() -> Outcome:
        raise NotApplicableError("nothing is tiered")

    assert result_of(check) == CheckResult("c", (), skipped="nothing is tiered")


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (ClientNetworkError("h:1 closed\nthe connection."), "This could not be checked: h:1 closed the connection."),
        (OSError(), "This could not be checked: OSError."),
        (CrabkaError("no"), "This could not be checked: no."),
        (KeyError("x"), "This check has a defect and says nothing: KeyError('x')."),
    ],
)
def test_a_failure_is_a_warning_of_this_check_alone(failure: Exception, text: str) -> None:
    async def check() -> Outcome:
        raise failure

    (finding,) = result_of(check).findings
    assert (finding.severity.value, finding.reason) == ("warning", text)


def test_a_check_that_does_not_end_is_given_up() -> None:
    async def check() -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError

    (finding,) = result_of(check).findings
    assert finding.reason == "The check was not finished within 30s; --timeout allows more."


def test_a_shared_fact_is_gathered_once_unless_that_fails() -> None:
    answers: list[Exception | int] = [NotApplicableError("not yet"), 7]
    asked = []

    async def gather() -> int:
        asked.append(1)
        await asyncio.sleep(0)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def main() -> tuple[int, int]:
        once = _Once(gather)
        with pytest.raises(NotApplicableError):
            await once.get()
        first, second = await asyncio.gather(once.get(), once.get())
        return first, second

    assert asyncio.run(main()) == (7, 7)
    assert len(asked) == 2


@pytest.mark.parametrize(("timeout_ms", "answer_ms"), [(30_000, 10_000), (600_000, 10_000), (3_000, 1_000), (1, 1)])
def test_one_answer_takes_a_share_of_the_time(timeout_ms: int, answer_ms: int) -> None:
    assert _answer_ms(replace(REQUEST, timeout_ms=timeout_ms)) == answer_ms


def test_a_directory_is_examined_without_a_cluster(tmp_path: object) -> None:
    found = examine_data_dir(f"{tmp_path}/")
    assert (found.target.data_dir, found.is_healthy) == (str(tmp_path), False)
