"""Objects of one store below one prefix, through obstore: keys and bytes, no segments.

The only module that calls obstore's operations. Uploads are atomic: an object appears whole or not at all, and the
parts of an upload that fails are removed, whatever failed it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from crabka.ports import File
from crabka.remote.backends.store_errors import ObjectMissingError, backend_error, is_missing_key, is_missing_upload
from crabka.remote.backends.transfer import UploadLimits
from crabka.remote.backends.uploads import PiecesInFlight, UploadMemory, pieces
from crabka.remote.errors import TruncatedObjectError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

# A part is handed over in pieces, so that no more than the parts in flight and one piece are in memory.
PIECE_BYTES = 1 << 20
_LIST_PAGE = 1000
_STORE_ERRORS = (BaseError, OSError, ValueError)


class StoredObject(NamedTuple):
    """An object as a listing shows it; the key is without the bucket's prefix."""

    key: str
    size_bytes: int
    modified_ms: int


class Bucket:
    """A store and a prefix. Methods raise RemoteBackendError, and ObjectMissingError where a key has to exist."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        location: str,
        prefix: str = "",
        limits: UploadLimits | None = None,
        secrets: Iterable[str | None] = (),
    ) -> None:
        """`location` is how messages call the bucket; `secrets` never appear in them."""
        self._store = store
        self.location = location
        self._prefix = prefix.strip("/")
        self._limits = limits or UploadLimits()
        self._memory = UploadMemory(self._limits.memory_bytes)
        self._secrets = [secret for secret in secrets if secret]

    def __repr__(self) -> str:
        return f"Bucket({self.location!r})"

    def put(self, key: str, data: bytes) -> None:
        """Store an object in one request."""
        with self._calling(f"write {key}"):
            obstore.put(self._store, self._full(key), data, use_multipart=False)

    def put_new(self, key: str, data: bytes) -> bool:
        """Store an object unless there is one of that key; return whether it was stored. Of many at once, one wins."""
        with self._calling(f"create {key}"):
            try:
                obstore.put(self._store, self._full(key), data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            return True

    def put_file(self, key: str, file: File) -> int:
        """Store a file, in parts if it is large, and return its size. Raises OSError if it cannot be read.

        Waits while other uploads have all the memory. Whether an object of that size is there now is for the caller to
        check.
        """
        size_bytes = file.size()
        if size_bytes < self._limits.threshold_bytes:
            with self._memory.share(size_bytes):
                self.put(key, b"".join(pieces(file, size_bytes, max(size_bytes, 1))))
        else:
            with self._memory.share(self._limits.parts_in_flight * self._limits.part_bytes):
                self._put_parts(key, file, size_bytes)
        return size_bytes

    def get_range(self, key: str, span: range) -> memoryview:
        """Return a part of an object, without a copy of what came. Raises TruncatedObjectError if it is shorter."""
        with self._reading(key):
            data = memoryview(obstore.get_range(self._store, self._full(key), start=span.start, end=span.stop))
        if len(data) != len(span):
            message = f"{key} in {self.location} has {len(data)} bytes from {span.start} on, not {len(span)}"
            raise TruncatedObjectError(message)
        return data

    def get(self, key: str) -> bytes:
        """Return a whole object."""
        with self._reading(key):
            return obstore.get(self._store, self._full(key)).bytes().to_bytes()

    def size(self, key: str) -> int:
        """Return the bytes of an object."""
        with self._reading(key):
            return obstore.head(self._store, self._full(key))["size"]

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; those that do not exist are fine."""
        try:
            with self._reading(", ".join(keys), action="delete"):
                obstore.delete(self._store, [self._full(key) for key in keys])
        except ObjectMissingError:
            # A store that deletes one by one stops at the first that is missing.
            for key in keys if len(keys) > 1 else ():
                self.delete([key])

    def list(self, directory: str = "") -> Iterator[StoredObject]:
        """Return the objects in a directory and below it, all of them without one."""
        with self._calling(f"list {directory}"):
            for page in obstore.list(self._store, self._full(directory) or None, chunk_size=_LIST_PAGE):
                for found in page:
                    modified_ms = int(found["last_modified"].timestamp() * 1000)
                    yield StoredObject(self._relative(found["path"]), found["size"], modified_ms)

    def directories(self) -> Iterator[str]:
        """Return the names of the top directories."""
        with self._calling("list directories"):
            found = obstore.list_with_delimiter(self._store, self._prefix or None)["common_prefixes"]
        return (self._relative(path) for path in found)

    def _put_parts(self, key: str, file: File, size_bytes: int) -> None:
        with self._calling(f"write {key}"):
            writer = obstore.open_writer(
                self._store,
                self._full(key),
                buffer_size=self._limits.part_bytes,
                max_concurrency=self._limits.parts_in_flight,
            )
        flight = PiecesInFlight()
        written = 0
        try:
            for piece in pieces(file, size_bytes, PIECE_BYTES):
                with self._calling(f"write {key}"):
                    written += writer.write(flight.track(piece))
        except BaseException:
            # A part that is on its way could arrive after the upload is aborted, and stay.
            flight.wait(written % self._limits.part_bytes)
            with suppress(*_STORE_ERRORS):
                writer.__exit__(*sys.exc_info())  # aborts
            raise
        # What is left goes alone: if another part failed now, this one would be cut off, and might arrive as well.
        flight.wait(written % self._limits.part_bytes)
        with self._calling(f"write {key}"):
            try:
                writer.close()
            except OSError as error:
                # After a lost response the upload is completed twice. The caller verifies the outcome of the first one.
                if not is_missing_upload(error):
                    raise

    def _full(self, key: str) -> str:
        return "/".join(part for part in (self._prefix, key) if part)

    def _relative(self, path: str) -> str:
        return path.removeprefix(self._prefix).lstrip("/")

    @contextmanager
    def _reading(self, key: str, *, action: str = "read") -> Iterator[None]:
        """As _calling for what may find nothing."""
        with self._calling(f"{action} {key}", missing_is_known=True):
            yield

    @contextmanager
    def _calling(self, action: str, *, missing_is_known: bool = False) -> Iterator[None]:
        try:
            yield
        except _STORE_ERRORS as error:
            if missing_is_known and is_missing_key(error):
                raise ObjectMissingError(action) from None
            # Not chained: obstore's own text may show what must not be shown.
            raise backend_error(error, f"{action} in {self.location}", self._secrets) from None
