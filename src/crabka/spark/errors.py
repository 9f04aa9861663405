"""Errors of a read, and the choice between failing and going on; every message is one sentence that stands alone."""

from __future__ import annotations

import logging

from crabka.errors import ConfigError, CrabkaError
from crabka.spark.options.source_options import SourceOptions

logger = logging.getLogger(__name__)


class DataLossError(CrabkaError):
    """Rows of a read are missing: deleted, or not there yet; `failOnDataLoss=false` reads the others."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message}; set failOnDataLoss to false to read what there is")
        self.loss = message


class TierReadError(CrabkaError):
    """The tier cannot be read as configured; the message says what to change."""


class SegmentVanishedError(TierReadError):
    """An object that the metadata names is not in the tier: deleted meanwhile, unless the metadata is old."""


class TopicChangedError(DataLossError):
    """The topic of a plan is gone, and another one has its name."""


class TierElsewhereError(ConfigError):
    """The tier is a directory that this machine does not have."""


def lose(options: SourceOptions, error: DataLossError) -> None:
    """Raise the error, or log the loss."""
    if options.fail_on_data_loss:
        raise error
    logger.warning("%s; continuing, because failOnDataLoss is false", error.loss)
