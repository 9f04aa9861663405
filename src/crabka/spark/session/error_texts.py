"""The one sentence of an error in the long texts that Spark makes of it.

Spark wraps the traceback of a source into texts of its own: a line with an SQLSTATE follows it, or the plan of a
stream. So its exceptions get a note (PEP 678) with the sentence, which Python and IPython print last. The text of the
exceptions stays as it is. Spark has no hook for this: the constructors of its exceptions are wrapped, once per process.
"""

from __future__ import annotations

import re
import sys
from functools import wraps
from typing import Any, Final

from crabka.errors import CrabkaError

# The last line of a traceback with an error of Crabka.
_OURS: Final = re.compile(r"^crabka(?:\.\w+)+: (\S.*)$", re.MULTILINE)
# The last line of a traceback: the class of the error, with its modules, and what it says; Java has some text before.
_SAID: Final = re.compile(r"^(?:: |Caused by: )?(?:[A-Za-z_]\w*\.)*[A-Z]\w*: (\S.*)$", re.MULTILINE)
_PREFIX: Final = "crabka: "
_WRAPPED: Final = "_crabka_adds_notes"
# Where exceptions are converted, and what they keep their text in.
_CLASSES: Final = (
    ("pyspark.errors.exceptions.captured", "CapturedException", "_desc"),
    ("pyspark.errors.exceptions.connect", "SparkConnectGrpcException", "_message"),
)


class SparkJobError(CrabkaError):
    """A job of Spark failed after all retries; has the last message of it."""


def sentence_of(text: str) -> str | None:
    """Return the message of the last error of Crabka in a text, None if there is none."""
    said = [match[1] for match in _OURS.finditer(text)]
    return said[-1] if said else None


def failure_of(text: str) -> str:
    """Return the last message of a task, from the long text that Spark makes of it."""
    # After Python's own traceback Spark repeats where in Java it was.
    python = text.partition("\n\tat ")[0] if "Traceback (most recent call last)" in text else text
    for part in (python, text):
        said = [match[1] for match in _SAID.finditer(part)]
        if said:
            return said[-1]
    return text.strip().partition("\n")[0]


def add_error_notes() -> None:
    """Append the sentence of Crabka's errors to the exceptions of Spark that wrap them, from now on."""
    import pyspark.errors.exceptions.captured  # noqa: F401 - loaded, so that it is found below

    for module, name, attribute in _CLASSES:
        found = sys.modules.get(module)  # Connect only where it is used: it needs more libraries
        if found is not None:
            _wrap(getattr(found, name), attribute)


def _wrap(kind: type[BaseException], attribute: str) -> None:
    if getattr(kind, _WRAPPED, False):
        return
    construct = kind.__init__

    @wraps(construct)
    def with_note(self: BaseException, *args: Any, **keywords: Any) -> None:
        construct(self, *args, **keywords)
        sentence = sentence_of(str(getattr(self, attribute, "")))
        if sentence is not None and not getattr(self, "__notes__", ()):
            self.add_note(f"{_PREFIX}{sentence}")

    kind.__init__ = with_note  # type: ignore[method-assign]
    setattr(kind, _WRAPPED, True)
