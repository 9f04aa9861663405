"""Progress of a check of a tier, as bars on stderr; nothing if stderr is no terminal."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabka.remote.listing import TierObject


class TierProgress:
    """Bars for the metadata, the listing and the bytes that are read. Methods may be called from any thread."""

    def __init__(self, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        columns = (TextColumn("{task.description:<9}"), BarColumn(), TextColumn("{task.fields[done]}"))
        self._counts = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._bytes = Progress(
            TextColumn("{task.description:<9}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._metadata: TaskID | None = None
        self._contents: TaskID | None = None

    def __enter__(self) -> Self:
        self._counts.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._counts.stop()
        self._bytes.stop()

    def metadata(self, done: int, total: int) -> None:
        """Show how much of the metadata topic was read."""
        if self._metadata is None:
            self._metadata = self._counts.add_task("metadata", total=total, done="")
        self._counts.update(self._metadata, completed=done, total=total, done=f"{done:,} of {total:,} events")

    def objects(self, listed: Iterable[TierObject]) -> Iterator[TierObject]:
        """Yield the objects and show their number."""
        task = self._counts.add_task("listing", total=None, done="")
        count = 0
        for count, found in enumerate(listed, start=1):
            if count % 100 == 0:
                self._counts.update(task, done=f"{count:,} objects")
            yield found
        self._counts.update(task, total=count, completed=count, done=f"{count:,} objects")

    def begin_contents(self, byte_count: int) -> None:
        """Show a bar for bytes; only one display can be active at a time."""
        self._counts.stop()
        self._bytes.start()
        self._contents = self._bytes.add_task("reading", total=byte_count)

    def contents(self, byte_count: int) -> None:
        """Add to the number of bytes read."""
        if self._contents is not None:
            self._bytes.advance(self._contents, byte_count)
