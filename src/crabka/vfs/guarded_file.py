"""Small files whose format has no checksum, guarded by a copy that has one.

Kafka's checkpoints, `meta.properties` and `quorum-state` are text: a digit that became another is a valid file. Their
bytes stay as Kafka writes them, because Kafka reads them too. So each has a `crabka-copy-of-<name>` in its directory.
It holds a CRC-32C, the modification time of the file that it was made for, and the whole content. Kafka ignores the
name: in a log dir it takes directories for logs, and in the directory of a log it uses the suffixes of names.

    <CRC-32C of the rest, 8 hex digits> <modification time in ms>\n<content>

Rot changes bytes and leaves times and sizes alone; a writer changes the time. That separates them:

| the file and its copy | what counts |
|---|---|
| equal | the file |
| the copy is missing, or its checksum is wrong | the file |
| they differ, the file has the time and size of the copy | the copy: the bytes of the file have changed by themselves |
| they differ, and so do time or size | the file: Kafka, an operator, a restored backup or a crash wrote it |
| the file is missing | nothing, as without a copy: an operator removes a checkpoint to have all checked, or formats |

`read_guarded` decides and writes nothing, so that tools may use it while a node runs. `settle_guarded` puts right
what the decision found. It is for the owner of the file, after the content was found to be valid: a file that cannot be
parsed must not replace the copy of one that could.

Order of writes, and what a power cut leaves between them:

- A new content: the file under a temporary name, synced; the copy under a temporary name, synced; then both names; then
  one sync of the directory. A full disk is met before a name changes, so the old state stays whole. Whichever name
  survives alone, the times differ and the file counts. If the clock of the file system is so coarse that both contents
  have one time, the copy counts, be it the older or the newer. Either is right: the write has not returned. When it
  returns, both names are durable, so a content that was acknowledged is never undone.
- A rotten file is replaced, durably, before its copy: until the copy names the new time, the contents are equal. The
  other order would leave a rotten file whose time is not that of its copy, and it would count.
- For the same reason the file gets its name before the copy does: a process that is killed between them leaves a rotten
  file, which was about to be replaced, with the copy that belongs to it.

Only one writer of a path at a time. Must not know what the files hold.
"""

from __future__ import annotations

import posixpath
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from crabka.vfs.atomic import TEMPORARY_SUFFIX, read_file, write_atomic, write_synced

if TYPE_CHECKING:
    from crabka.ports import FileSystem

COPY_PREFIX: Final = "crabka-copy-of-"


class Finding(Enum):
    """How a file and its copy compare."""

    WHOLE = "whole"
    # No copy was made for the file as it is: it is new, or another program wrote it.
    UNGUARDED = "unguarded"
    COPY_DAMAGED = "copy damaged"
    ROTTEN = "rotten"


class GuardedContent(NamedTuple):
    """The content that counts."""

    data: bytes
    # That of the file, before it was read.
    modified_ms: int
    finding: Finding


class _Copy(NamedTuple):
    modified_ms: int
    data: bytes


def copy_path(path: str) -> str:
    """Return the path of the copy of a file."""
    directory, name = posixpath.split(path)
    return posixpath.join(directory, COPY_PREFIX + name)


def write_guarded(fs: FileSystem, path: str, data: bytes) -> None:
    """Replace a file and its copy; both are durable on return. On OSError before the names change, nothing has."""
    temporary = path + TEMPORARY_SUFFIX
    copy = copy_path(path)
    write_synced(fs, temporary, data)
    write_synced(fs, copy + TEMPORARY_SUFFIX, _encode(fs.stat(temporary).modified_ms, data))
    fs.rename(temporary, path)
    fs.rename(copy + TEMPORARY_SUFFIX, copy)
    fs.fsync_dir(posixpath.dirname(path) or ".")


def read_guarded(fs: FileSystem, path: str) -> GuardedContent:
    """Return the content of a file that counts; writes nothing. Raises FileNotFoundError without the file."""
    # Before the content: the copy of a file that is replaced meanwhile names another time.
    found = fs.stat(path)
    data = read_file(fs, path)
    try:
        copy = _decode(read_file(fs, copy_path(path)))
    except FileNotFoundError:
        return GuardedContent(data, found.modified_ms, Finding.UNGUARDED)
    except OSError:
        # The file can be read, and only that is needed.
        copy = None
    if copy is None:
        return GuardedContent(data, found.modified_ms, Finding.COPY_DAMAGED)
    is_made_for_it = copy.modified_ms == found.modified_ms and len(copy.data) == found.size_bytes
    if not is_made_for_it:
        return GuardedContent(data, found.modified_ms, Finding.UNGUARDED)
    return GuardedContent(copy.data, found.modified_ms, Finding.WHOLE if copy.data == data else Finding.ROTTEN)


def settle_guarded(fs: FileSystem, path: str, content: GuardedContent) -> str:
    """Write anew what `read_guarded` found damaged, and a copy where none fits; return what was wrong, or nothing.

    The content is known without this. So a disk that takes no write is named in the answer and is no error.
    """
    reason = ""
    try:
        match content.finding:
            case Finding.WHOLE:
                return ""
            case Finding.ROTTEN:
                reason = f"{path}: its bytes have changed on the disk, it is written anew from {copy_path(path)}"
                write_atomic(fs, path, content.data)
                content = content._replace(modified_ms=fs.stat(path).modified_ms)
            case Finding.COPY_DAMAGED:
                reason = f"{copy_path(path)}: its checksum is wrong, it is written anew from {path}"
            case Finding.UNGUARDED:
                reason = ""
        write_atomic(fs, copy_path(path), _encode(content.modified_ms, content.data))
    except OSError as error:
        return f"{reason or f'{path} gets no copy'}; that failed: {error}"
    return reason


def _encode(modified_ms: int, data: bytes) -> bytes:
    rest = b"%d\n%s" % (modified_ms, data)
    return b"%08x %s" % (crc32c(rest), rest)


def _decode(stored: bytes) -> _Copy | None:
    """Return what a copy holds, None if its checksum is wrong."""
    checksum, _, rest = stored.partition(b" ")
    if checksum != b"%08x" % crc32c(rest):
        return None
    modified, _, data = rest.partition(b"\n")
    try:
        return _Copy(int(modified), data)
    except ValueError:
        return None
