"""ApiVersions (18): what this controller serves, and the cluster's features.

The dispatcher answers requests of unknown versions (KIP-511).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.api_table import TABLE
from crabka.serving.api_versions_answer import answer_api_versions

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.serving.request import Request


def handle(context: ControllerContext, request: Request) -> Any:
    """Answer with the table of served APIs."""
    return answer_api_versions(request, TABLE.served, context.image, kraft_version=context.quorum.kraft_version)
