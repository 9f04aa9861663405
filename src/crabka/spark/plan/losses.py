"""What happens when rows that were asked for are gone: an error, or a warning if the query may go on."""

from __future__ import annotations

import logging

from crabka.spark.errors import DataLossError
from crabka.spark.source.options import SourceOptions

_log = logging.getLogger(__name__)


def lose(options: SourceOptions, error: DataLossError) -> None:
    """Raise the error, or log the loss."""
    if options.fail_on_data_loss:
        raise error
    _log.warning("%s; going on, since failOnDataLoss is false", error.loss)
