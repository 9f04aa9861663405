"""From the stream of records to published images, with metadata transactions (KIP-868) held back until they end."""

from __future__ import annotations

from typing import Any, NamedTuple

from crabka.errors import CorruptDataError
from crabka.metadata.delta import MetadataDelta
from crabka.metadata.image import EMPTY_IMAGE, MetadataImage
from crabka.metadata.records import RecordType


class Published(NamedTuple):
    """A step from one image to the next."""

    delta: MetadataDelta
    image: MetadataImage


class MetadataReplay:
    """Holds the current image; records come in with `replay`, `publish` makes the next image of them."""

    def __init__(self, image: MetadataImage = EMPTY_IMAGE) -> None:
        self.image = image
        self._delta = MetadataDelta(image)
        self._position = (image.offset, image.epoch)
        # Records of the open transaction; None outside of one.
        self._transaction: list[Any] | None = None

    @property
    def in_transaction(self) -> bool:
        """True between a begin record and its end or abort."""
        return self._transaction is not None

    def replay(self, record: Any, offset: int, epoch: int) -> None:
        """Take the next record of the log."""
        match record.__api_key__:
            case RecordType.BEGIN_TRANSACTION:
                self._begin(offset)
                return
            case RecordType.END_TRANSACTION:
                for held in self._finish(offset):
                    self._delta.replay(held)
            case RecordType.ABORT_TRANSACTION:
                self._finish(offset)
            case _ if self._transaction is not None:
                self._transaction.append(record)
                return
            case _:
                self._delta.replay(record)
        self._position = (offset, epoch)

    def skip_to(self, offset: int, epoch: int) -> None:
        """Note that the log goes up to `offset` without metadata there: a control record."""
        if self._transaction is None:
            self._position = (offset, epoch)

    def publish(self) -> Published | None:
        """Make the image of all that is complete; None if nothing is new."""
        offset, epoch = self._position
        if (offset, epoch) == (self.image.offset, self.image.epoch):
            return None
        delta = self._delta
        self.image = delta.apply(offset, epoch)
        self._delta = MetadataDelta(self.image)
        return Published(delta, self.image)

    def _begin(self, offset: int) -> None:
        if self._transaction is not None:
            raise CorruptDataError("metadata", f"transaction begins at offset {offset} inside another")
        self._transaction = []

    def _finish(self, offset: int) -> list[Any]:
        if self._transaction is None:
            raise CorruptDataError("metadata", f"transaction ends at offset {offset} without a begin")
        held, self._transaction = self._transaction, None
        return held
