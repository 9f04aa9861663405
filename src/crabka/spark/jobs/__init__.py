"""Jobs on a tier and its tables: each a function that a program calls and a command that an operator runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from crabka.spark.jobs.audit import AuditOptions, audit_tier
    from crabka.spark.jobs.recover import plan_recovery

__all__ = ["AuditOptions", "audit_tier", "plan_recovery"]

__getattr__ = lazy_exports(__name__, {"audit": ["AuditOptions", "audit_tier"], "recover": ["plan_recovery"]})
