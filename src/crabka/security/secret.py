"""A secret text: hidden in repr, and returned by `reveal()` only."""

from __future__ import annotations

HIDDEN = "[hidden]"


class Secret:
    """A password or a key; texts, logs and tracebacks that show the object show `[hidden]`, as Kafka's do."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)
