"""What Spark's errors say, in one sentence: the last line of the task or of the planning that failed."""

from __future__ import annotations

import re
from typing import Final

from crabka.errors import CrabkaError

# The last line of a traceback: the class of the error, with its modules, and what it says; Java has some text before.
_SAID: Final = re.compile(r"^(?:: |Caused by: )?(?:[A-Za-z_]\w*\.)*[A-Z]\w*: (\S.*)$", re.MULTILINE)


class SparkJobError(CrabkaError):
    """A job of Spark failed for good; carries what it said last."""


def failure_of(text: str) -> str:
    """Return what a task said last, from the long text that Spark makes of it."""
    # After Python's own traceback Spark repeats where in Java it was.
    python = text.partition("\n\tat ")[0] if "Traceback (most recent call last)" in text else text
    for part in (python, text):
        said = [match[1] for match in _SAID.finditer(part)]
        if said:
            return said[-1]
    return text.strip().partition("\n")[0]
