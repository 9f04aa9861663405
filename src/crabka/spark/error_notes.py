"""Puts the sentence of an error of ours after all that Spark says about it.

Spark wraps the traceback of a source into texts of its own: a line with an SQLSTATE follows it, or the plan of a
stream. So its exceptions get a note (PEP 678) with the sentence, which Python and IPython print last. The text of the
exceptions stays as it is. Spark has no hook for this: the constructors of its exceptions are wrapped, once per process.
"""

from __future__ import annotations

import re
import sys
from functools import wraps
from typing import Any, Final

# The last line of a traceback with an error of ours.
_OURS: Final = re.compile(r"^crabka(?:\.\w+)+: (\S.*)$", re.MULTILINE)
_PREFIX: Final = "crabka: "
_WRAPPED: Final = "_crabka_adds_notes"
# Where exceptions are converted, and what they keep their text in.
_CLASSES: Final = (
    ("pyspark.errors.exceptions.captured", "CapturedException", "_desc"),
    ("pyspark.errors.exceptions.connect", "SparkConnectGrpcException", "_message"),
)


def sentence_of(text: str) -> str | None:
    """Return what the last error of ours in a text says, None if there is none."""
    said = [match[1] for match in _OURS.finditer(text)]
    return said[-1] if said else None


def add_error_notes() -> None:
    """Let exceptions of Spark that come from errors of ours end with their sentence, from now on."""
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
