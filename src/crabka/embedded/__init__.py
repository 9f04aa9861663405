"""A broker inside a Python process, for tests and small programs."""

from __future__ import annotations

from crabka.embedded.broker import Broker

__all__ = ["Broker"]
