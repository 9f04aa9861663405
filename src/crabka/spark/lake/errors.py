"""What can go wrong between a topic and its table."""

from __future__ import annotations

from collections.abc import Mapping

from crabka.errors import CrabkaError


class LakeError(CrabkaError):
    """A table cannot be written, read or kept as it was asked for; the text is one clear sentence."""


class TopicsFailedError(LakeError):
    """Some topics of a sync failed; the others are where they should be. `errors` are by topic."""

    def __init__(self, errors: Mapping[str, Exception]) -> None:
        super().__init__(dict(errors))
        self.errors = dict(errors)

    def __str__(self) -> str:
        reasons = "; ".join(f"{topic}: {error}" for topic, error in self.errors.items())
        return f"{len(self.errors)} of the topics failed: {reasons}"


class CommitConflictError(LakeError):
    """Another writer changed the table since it was looked at; nothing was committed."""


class SchemaConflictError(LakeError):
    """A column is wanted with a type that the table's own column cannot take."""
