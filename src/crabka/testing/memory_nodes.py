"""What the simulated disk stores: files and directories, each with a volatile and a durable side.

Owns the rules of what a crash leaves behind. Must not know paths, handles or errno.

A file's content is durable up to its last fsync. What was written since survives block by block: every block
holds some state it had since the fsync, as if the kernel had written that page back at that moment, and the
length is one of the lengths since then, independently. Blocks that never reached the disk below that length
read as zeros.

A directory's names are durable up to its last fsync_dir. A rename is one change and survives as a whole or not
at all, also between two directories. Changes that touch a common name survive in order; others in any combination.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from crabka.ports import Buffer

# The unit of survival: the page of the page cache. Disks may tear at 512 bytes too.
PAGE_BYTES = 4096

Node: TypeAlias = "FileNode | DirectoryNode"


class FileNode:
    """A file without its name."""

    __slots__ = ("_changes", "_durable", "content", "linked", "modified_ms")

    def __init__(self, modified_ms: int) -> None:
        self.content = bytearray()
        self.modified_ms = modified_ms
        self.linked = True  # whether it has a name and thus counts for the space in use
        self._durable = bytearray()
        # Since the last fsync, in order: bytes written at a position, or a truncation to a size.
        self._changes: list[tuple[int, bytes | None]] = []

    def write(self, data: bytes, position: int) -> None:
        """Write to the volatile side."""
        if data:
            self._changes.append((position, data))
            _apply(self.content, position, data)

    def truncate(self, size: int) -> None:
        """Cut or zero-extend the volatile side."""
        self._changes.append((size, None))
        _apply(self.content, size, None)

    def rot(self, position: int, mask: int) -> None:
        """Change bits of a byte on both sides; the time of the last change stays."""
        for side in (self.content, self._durable):
            if position < len(side):
                side[position] ^= mask

    def sync(self) -> None:
        """Make the volatile content durable, at the cost of what changed and not of the whole file."""
        for position, data in self._changes:
            _apply(self._durable, position, data)
        self._changes.clear()

    def crash(self, rng: random.Random | None, block_bytes: int) -> None:
        """Fall back to the durable content, plus what `rng` lets survive."""
        if rng is not None and self._changes:
            self._durable = self._survivor(rng, block_bytes)
        self._changes.clear()
        self.content = bytearray(self._durable)

    def _survivor(self, rng: random.Random, block_bytes: int) -> bytearray:
        lengths = [len(self._durable)]
        for position, data in self._changes:
            lengths.append(position if data is None else max(lengths[-1], position + len(data)))
        eagerness = _eagerness(rng)
        survivor = bytearray(lengths[_survived(rng, len(self._changes), eagerness)])
        for start in range(0, len(survivor), block_bytes):
            touching = [change for change in self._changes if _touches(change, start, block_bytes)]
            count = _survived(rng, len(touching), eagerness)
            end = min(start + block_bytes, len(survivor))
            survivor[start:end] = self._block_after(touching[:count], start, block_bytes)[: end - start]
        return survivor

    def _block_after(self, changes: Sequence[tuple[int, bytes | None]], start: int, block_bytes: int) -> bytes:
        block = bytearray(self._durable[start : start + block_bytes])
        for position, data in changes:
            if data is None:
                del block[max(position - start, 0) :]
            else:
                skip = max(start - position, 0)
                piece = data[skip : skip + block_bytes - max(position - start, 0)]
                _apply(block, max(position - start, 0), piece)
        return bytes(block.ljust(block_bytes, b"\0"))


class DirectoryNode:
    """A directory without its name."""

    __slots__ = ("durable", "entries", "modified_ms")

    def __init__(self, modified_ms: int) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.modified_ms = modified_ms

    def crash(self, rng: random.Random | None, block_bytes: int) -> None:
        """Fall back to the durable names, and below them to the durable content plus what `rng` lets survive."""
        self.entries = dict(self.durable)
        for node in self.entries.values():
            node.crash(rng, block_bytes)

    def walk(self) -> Iterator[Node]:
        """Yield every node below, by its volatile name."""
        for node in self.entries.values():
            yield node
            if isinstance(node, DirectoryNode):
                yield from node.walk()


Slot: TypeAlias = tuple[DirectoryNode, str]
Change: TypeAlias = "dict[Slot, Node | None]"


class NameJournal:
    """Name changes that are not durable yet, in order. Each is atomic: a mapping of slots to their new nodes."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: list[Change] = []

    @property
    def pending_count(self) -> int:
        """Return how many changes a crash may still undo."""
        return len(self._pending)

    def record(self, change: Change) -> None:
        """Carry out a change on the volatile side and remember it."""
        _assign(change, durable=False)
        self._pending.append(change)

    def sync(self, directory: DirectoryNode) -> None:
        """Make the names of a directory durable, with everything that is entangled with them by renames."""
        slots = {slot for change in self._pending for slot in change if slot[0] is directory}
        for change in self._take_entangled(slots):
            removed = [slot[0].durable.get(slot[1]) for slot in change]
            _assign(change, durable=True)
            for node in removed:
                if isinstance(node, DirectoryNode) and node not in change.values():
                    self._forget_below(node)

    def crash(self, rng: random.Random | None) -> None:
        """Make durable what `rng` lets survive and forget the rest."""
        eagerness = _eagerness(rng) if rng is not None else 0.0
        while rng is not None and self._pending:
            group = self._take_entangled(set(self._pending[0]))
            for change in group[: _survived(rng, len(group), eagerness)]:
                _assign(change, durable=True)
        self._pending.clear()

    def _take_entangled(self, slots: set[Slot]) -> list[Change]:
        """Remove and return, in order, the changes that share a slot with `slots` or with one another."""
        while True:
            group = [change for change in self._pending if not slots.isdisjoint(change)]
            before = len(slots)
            for change in group:
                slots.update(change)
            if len(slots) == before:
                self._pending = [change for change in self._pending if slots.isdisjoint(change)]
                return group

    def _forget_below(self, removed: DirectoryNode) -> None:
        """Drop changes inside a directory that is durably gone: nothing can ever reach them."""
        dead = {removed}
        frontier = [removed]
        while frontier:
            directory = frontier.pop()
            for node in directory.durable.values():
                if isinstance(node, DirectoryNode) and node not in dead:
                    dead.add(node)
                    frontier.append(node)
        self._pending = [change for change in self._pending if not all(slot[0] in dead for slot in change)]


def _assign(change: Change, *, durable: bool) -> None:
    for (directory, name), node in change.items():
        names = directory.durable if durable else directory.entries
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _apply(content: bytearray, position: int, data: Buffer | None) -> None:
    """Write `data` at `position`, or truncate to `position` when there is none; gaps read as zeros."""
    if position > len(content):
        content.extend(bytes(position - len(content)))
    if data is None:
        del content[position:]
    else:
        content[position : position + len(data)] = data


def _touches(change: tuple[int, bytes | None], start: int, block_bytes: int) -> bool:
    position, data = change
    return position < start + block_bytes and (data is None or position + len(data) > start)


def _eagerness(rng: random.Random) -> float:
    """Draw how much of the pending state reaches the disk, so that all, nothing and every mixture are likely."""
    return rng.choice((0.0, 0.5, 0.95, 1.0))


def _survived(rng: random.Random, count: int, eagerness: float) -> int:
    """Draw how many of `count` successive changes survive: all of them with probability `eagerness`."""
    return count if rng.random() < eagerness else rng.randint(0, count)
