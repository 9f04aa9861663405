"""The source itself: options, data source classes, offsets in checkpoints, registration and explanation."""

from __future__ import annotations
