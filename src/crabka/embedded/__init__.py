"""A broker inside a Python process, for tests and small programs.

Importing this package loads no broker: the pytest plugin is in it, and every test run of an environment loads that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from crabka.embedded.broker import Broker

__all__ = ["Broker"]

__getattr__ = lazy_exports(__name__, {"broker": ["Broker"]})
