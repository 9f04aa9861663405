"""The steps of copying and of retention at which a broker can crash."""

from __future__ import annotations

COPY_STEPS = ("copy.before_started", "copy.after_started", "copy.after_upload", "copy.after_finished")


RETENTION_STEPS = (
    "retention.before_log_start",
    "retention.after_log_start",
    "delete.before_started",
    "delete.after_started",
    "delete.after_data",
    "delete.after_finished",
)
