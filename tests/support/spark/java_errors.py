"""Exceptions of Java's own, as py4j raises them, without a Java."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError


class JavaSideError(Py4JJavaError):  # type: ignore[misc]  # py4j has no types
    """What a Java that lives tells."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)
        self._text = text

    def __str__(self) -> str:
        return self._text
