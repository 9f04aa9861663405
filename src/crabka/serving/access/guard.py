"""Checks before handlers: a guard admits a request, perhaps without some of its rows, or answers it.

A node without an authorizer calls its handlers directly and knows nothing of guards. With one, the table of guards
says for every API which permissions it needs and what happens without them.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from crabka.errors import OperationError, drop_tracebacks
from crabka.protocol.apis import ApiKey
from crabka.security.acls import Operation
from crabka.serving.access.access import Access
from crabka.serving.api_table import ApiTable, Handler
from crabka.serving.request import Request

Finish = Callable[[Any], Any]


class Admission(NamedTuple):
    """What the handler is asked, and what is done with its answer."""

    request: Request
    finish: Finish | None = None


class Answered(NamedTuple):
    """The answer of a request that its handler never sees."""

    entity: Any


# The context is the one of the role that serves the request.
Guard = Callable[[Access, Any, Request], Admission | Answered]
GuardedHandle = Callable[[Access, Any, Request], Any]
Refuse = Callable[[Request, OperationError], Any]


class Check(NamedTuple):
    """One permission that an API needs, for the table in docs/COMPATIBILITY.md."""

    operation: Operation
    # What it is about, such as `Topic` or `Cluster`.
    resource: str
    # What a client gets without it: an error code, or words.
    otherwise: str = ""
    # In which case it is needed.
    when: str = ""

    def __str__(self) -> str:
        text = f"{self.operation.name} on {self.resource}"
        text = f"{text} ({self.when})" if self.when else text
        return f"{text}: {self.otherwise}" if self.otherwise else text


class Row(NamedTuple):
    """The checks of one API: a guard before its handler, or a function in place of it."""

    checks: tuple[Check, ...] = ()
    guard: Guard | None = None
    handle: GuardedHandle | None = None
    # Why an API needs no check here.
    note: str = ""


Guards = Mapping[ApiKey, Row]

BEFORE_LOGIN: Final = Row(note="nothing: a client sends it before it is logged in")


def guarded_load(table: ApiTable, guards: Guards, access: Access | None, refuse: Refuse) -> Callable[[int], Handler]:
    """Return how the handlers of a table are loaded: with their checks, or as they are if there is no authorizer."""
    if access is None:
        return table.load
    return lambda api_key: guarded(table.load(api_key), guards[ApiKey(api_key)], access, refuse)


def guarded(handler: Handler, row: Row, access: Access, refuse: Refuse) -> Handler:
    """Return the handler with the checks of its row before it."""
    if row.handle is not None:
        # Not a lambda: this is on the path of every record.
        return handler.with_handle(partial(row.handle, access), is_async=asyncio.iscoroutinefunction(row.handle))
    if row.guard is None:
        return handler
    inner, guard = handler.handle, row.guard

    def admit(context: Any, request: Request) -> Admission | Answered:
        try:
            return guard(access, context, request)
        except OperationError as error:
            drop_tracebacks(error)
            return Answered(refuse(request, error))

    async def handle_later(context: Any, request: Request) -> Any:
        admitted = admit(context, request)
        if isinstance(admitted, Answered):
            return admitted.entity
        answer = await inner(context, admitted.request)
        return answer if admitted.finish is None else admitted.finish(answer)

    def handle(context: Any, request: Request) -> Any:
        admitted = admit(context, request)
        if isinstance(admitted, Answered):
            return admitted.entity
        answer = inner(context, admitted.request)
        if admitted.finish is None:
            return answer
        if isinstance(answer, asyncio.Future):
            return context.spawn(_finish_later(answer, admitted.finish))
        return admitted.finish(answer)

    return handler.with_handle(handle_later if handler.is_async else handle, is_async=handler.is_async)


async def _finish_later(answer: Awaitable[Any], finish: Finish) -> Any:
    return finish(await answer)


def cluster_guard(operation: Operation) -> Guard:
    """Return the guard of an API that is one operation on the cluster."""

    def guard(access: Access, _context: Any, request: Request) -> Admission:
        access.require_cluster(request, operation)
        return Admission(request)

    return guard


def cluster_row(operation: Operation) -> Row:
    """Return the row of an API that is one operation on the cluster."""
    return Row((Check(operation, "Cluster", "CLUSTER_AUTHORIZATION_FAILED"),), cluster_guard(operation))


def with_body(request: Request, **changes: Any) -> Request:
    """Return a request with other values in its body."""
    return request._replace(body=dataclasses.replace(request.body, **changes))
