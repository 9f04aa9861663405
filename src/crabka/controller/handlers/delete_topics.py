"""DeleteTopics (20): by name, from version 6 on also by id (KIP-516)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.topics import delete_topics
from crabka.ids import ZERO_UUID
from crabka.protocol.apis import response_types
from crabka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.ids import TopicId
    from crabka.serving.request import Request

_FIRST_VERSION_WITH_IDS = 6
_FIRST_VERSION_WITH_DELETION_DISABLED = 3
# From this version on clients know THROTTLING_QUOTA_EXCEEDED.
_FIRST_STRICT_VERSION = 5


async def handle(context: ControllerContext, request: Request) -> Any:
    """Delete topics; their files are removed after `file.delete.delay.ms`."""
    types = response_types(request.api_key, request.version)
    wanted = _wanted(request)
    budget = context.mutation_quotas.budget(request, strict_from=_FIRST_STRICT_VERSION)
    enabled = context.config.delete_topic_enable
    results = await context.metadata_writer.submit(
        lambda image: delete_topics(image, wanted, enabled=enabled, charge=budget.charge)
    )
    return types.message(
        throttle_time=budget.throttle_ms,
        responses=[
            types.new(
                "DeletableTopicResult",
                # Before version 6 the name is not nullable, and topics have no ids in the request.
                name=result.name,
                topic_id=result.topic_id,
                error_code=_code_for(request.version, result.verdict.error_code),
                error_message=result.verdict.message,
            )
            for result in results
        ],
    )


def _wanted(request: Request) -> list[tuple[str | None, TopicId]]:
    if request.version >= _FIRST_VERSION_WITH_IDS:
        return [(topic.name, topic.topic_id or ZERO_UUID) for topic in request.body.topics]
    return [(name, ZERO_UUID) for name in request.body.topic_names]


def _code_for(version: int, code: ErrorCode) -> ErrorCode:
    if code is ErrorCode.topic_deletion_disabled and version < _FIRST_VERSION_WITH_DELETION_DISABLED:
        return ErrorCode.invalid_request
    return code
