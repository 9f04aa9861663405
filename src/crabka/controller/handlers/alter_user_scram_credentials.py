"""AlterUserScramCredentials (51): stores and removes credentials of SCRAM users (KIP-554)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabka.controller.decisions.scram import ScramDeletion, alter_scram_credentials
from crabka.metadata.security import ScramKey
from crabka.protocol.apis import response_types
from crabka.security.sasl.scram_credentials import SaltedCredential

if TYPE_CHECKING:
    from crabka.controller.context import ControllerContext
    from crabka.serving.request import Request


async def handle(context: ControllerContext, request: Request) -> Any:
    """Write all changes that are valid, in one step."""
    types = response_types(request.api_key, request.version)
    body = request.body
    deletions = [ScramDeletion(ScramKey(each.mechanism, each.name)) for each in body.deletions]
    upsertions = [
        SaltedCredential(ScramKey(each.mechanism, each.name), each.iterations, each.salt, each.salted_password)
        for each in body.upsertions
    ]
    verdicts = await context.metadata_writer.submit(lambda image: alter_scram_credentials(image, deletions, upsertions))
    return types.message(
        throttle_time=0,
        results=[
            types.new(
                "AlterUserScramCredentialsResult",
                user=user,
                error_code=verdict.error_code,
                error_message=verdict.message,
            )
            for user, verdict in verdicts.items()
        ],
    )
