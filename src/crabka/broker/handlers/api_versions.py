"""ApiVersions (18): what this node serves, and the cluster's features.

A request of an unknown version never comes here: the dispatcher answers it (KIP-511).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.broker.api_table import SERVED
from crabka.serving.api_versions_answer import answer_api_versions

if TYPE_CHECKING:
    from crabka.broker.context import BrokerContext
    from crabka.serving.request import Request


def handle(context: BrokerContext, request: Request) -> Any:
    """Answer with the table of served APIs."""
    return answer_api_versions(request, SERVED, context.image, kraft_version=context.quorum.kraft_version)
