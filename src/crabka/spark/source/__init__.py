"""The source itself, as Spark calls it: data source classes, micro-batches and checkpoints, registration, explanation.

`data_source` is what Spark finds; `batch_reader` and `stream_reader` plan on the driver and read in tasks.
"""

from __future__ import annotations
