"""What can go wrong between a topic and its table."""

from __future__ import annotations

from crabka.errors import CrabkaError


class LakeError(CrabkaError):
    """A table cannot be written, read or kept as it was asked for; the text is one clear sentence."""


class CommitConflictError(LakeError):
    """Somebody else changed the table since it was looked at; nothing was committed."""


class SchemaConflictError(LakeError):
    """A column is wanted with a type that the table's own column cannot take."""
