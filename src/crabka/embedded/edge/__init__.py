"""The edge of an embedded broker: what a test sees of its clients' requests, and the faults that it injects there."""

from __future__ import annotations

from crabka.embedded.edge.edge import Edge
from crabka.embedded.edge.fault import Fault
from crabka.embedded.edge.faults import Faults
from crabka.embedded.edge.journal import Journal, JournalEntry

__all__ = ["Edge", "Fault", "Faults", "Journal", "JournalEntry"]
