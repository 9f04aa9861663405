"""One request that faults may be for: which of them it gets, and its answer with them."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from crabka.embedded.edge.error_responses import error_response
from crabka.embedded.edge.fault import Delay, Drop, Fail, Throttle
from crabka.embedded.edge.metadata_errors import failed_metadata, is_metadata_of
from crabka.embedded.edge.rows import Cut, Selection, cut_request, merge_responses
from crabka.protocol.api_keys import ApiKey
from crabka.protocol.apis import encode_request, read_request
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.headers import pack_request
from crabka.serving.changed_answers import held_back, pack_answer, read_answer, when_answered

if TYPE_CHECKING:
    from uuid import UUID

    from crabka.embedded.edge.fault import Fault
    from crabka.embedded.edge.faults import Faults
    from crabka.net.dispatch import ConnectionInfo, Dispatch, Response
    from crabka.protocol.headers import RequestHeader
    from crabka.serving.changed_answers import Answer

_LENGTH_BYTES = 4
_FIRST_FETCH_WITH_SESSIONS = 7
_NO_SESSION: Final = {"session_id": 0, "session_epoch": -1}
# Fetch reports them for the request, every other error for its partitions.
_SESSION_ERRORS: Final = frozenset(
    (
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
        ErrorCode.share_session_not_found,
        ErrorCode.invalid_share_session_epoch,
        ErrorCode.share_session_limit_reached,
    )
)
_ROWS_FIRST: Final = frozenset((ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE))


class EdgeNode(Protocol):
    """What the dispatcher needs of the node that it stands in front of."""

    node_id: int

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of a topic."""

    def cut(self, connection: ConnectionInfo, *, after_answers: bool = False) -> None:
        """Close a connection."""


class Behind(NamedTuple):
    """What is behind the edge of a node, and the faults at it."""

    dispatch: Dispatch
    node: EdgeNode
    faults: Faults


class Exchange:
    """A request that a fault may be for."""

    def __init__(
        self,
        behind: Behind,
        connection: ConnectionInfo,
        header: RequestHeader,
        frame: memoryview,
    ) -> None:
        self._dispatch, self._node, self._faults = behind
        self._connection = connection
        self._header = header
        self._frame = frame
        # The faults that it got, for the journal.
        self.effects: str | None = None
        self._decoded: Any = None

    def answer(self, candidates: list[Fault]) -> Answer:
        """Answer it as its faults say."""
        if self._is_of_unknown_rows(candidates):
            return self._evict_session()
        taken = self._faults.take(candidates, self._selects)
        if taken:
            self.effects = ", ".join(str(fault.effect) for fault in taken)
        answer = self._first_answer(taken)
        for fault in taken:
            match fault.effect:
                case Throttle(throttle_ms):
                    answer = when_answered(answer, partial(self._throttled, throttle_ms))
                    self._faults.note_hit(fault)
                case Delay(seconds):
                    answer = held_back(answer, seconds)
                    self._faults.note_hit(fault)
                case Drop("executed" | "answered"):
                    answer = when_answered(answer, partial(self._drop, fault))
        return answer

    def _first_answer(self, taken: list[Fault]) -> Answer:
        for fault in taken:
            match fault.effect:
                case Fail(code):
                    answer = self._failed(code, fault.target.selection)
                    self._faults.note_hit(fault)
                    return answer
                case Drop("before"):
                    return self._drop(fault, None)
        return self._dispatch(self._connection, self._frame)

    # --- rows

    @property
    def _body(self) -> Any:
        if self._decoded is None:
            header = self._header
            self._decoded = read_request(header.api_key, header.api_version, self._frame, header.body_offset)
        return self._decoded

    def _selects(self, selection: Selection) -> bool:
        if self._header.api_key == ApiKey.METADATA:
            return is_metadata_of(self._body, selection)
        if selection.is_all:
            return True
        return self._cut(selection).selected is not None

    def _cut(self, selection: Selection) -> Cut:
        header = self._header
        return cut_request(header.api_key, header.api_version, self._body, selection, self._node.topic_name)

    def _is_of_unknown_rows(self, candidates: list[Fault]) -> bool:
        """Return whether a fault is for rows, and the request does not list its rows: an incremental fetch."""
        header = self._header
        if header.api_key != ApiKey.FETCH or header.api_version < _FIRST_FETCH_WITH_SESSIONS:
            return False
        return self._body.session_id != 0 and any(
            isinstance(fault.effect, Fail) and fault.effect.code not in _SESSION_ERRORS for fault in candidates
        )

    def _evict_session(self) -> Answer:
        """Let the client list its partitions, as when a broker has no room for its fetch session (KIP-227)."""
        response = error_response(
            ApiKey.FETCH, self._header.api_version, self._body, ErrorCode.fetch_session_id_not_found, in_rows=False
        )
        return pack_answer(self._header, response)

    # --- effects

    def _failed(self, code: ErrorCode, selection: Selection) -> Answer:
        api_key, version = self._header.api_key, self._header.api_version
        if api_key == ApiKey.METADATA:
            answer = self._dispatch(self._connection, self._frame)
            return when_answered(answer, lambda response: self._with_failed_topics(response, code, selection))
        if api_key == ApiKey.PRODUCE and self._body.acks == 0:
            # There is no response that could have the error: as Kafka, end the connection.
            self._node.cut(self._connection)
            return None
        cut = self._cut(selection)
        in_rows = not selection.is_all or (api_key in _ROWS_FIRST and code not in _SESSION_ERRORS)
        failed = error_response(api_key, version, cut.selected, code, in_rows=in_rows)
        if cut.rest is None:
            return pack_answer(self._header, failed)
        return when_answered(self._answer_rest(cut.rest), lambda response: self._merged(response, failed))

    def _answer_rest(self, rest: Any) -> Answer:
        if self._header.api_key == ApiKey.FETCH and self._header.api_version >= _FIRST_FETCH_WITH_SESSIONS:
            # A session would leave the failed partitions out of the fetches that follow.
            rest = dataclasses.replace(rest, **_NO_SESSION)
        frame = pack_request(self._header, encode_request(rest))[_LENGTH_BYTES:]
        return self._dispatch(self._connection, memoryview(frame))

    def _merged(self, response: Response, failed: Any) -> Response:
        if response is None:
            return None
        return pack_answer(self._header, merge_responses(read_answer(self._header, response), failed))

    def _with_failed_topics(self, response: Response, code: ErrorCode, selection: Selection) -> Response:
        if response is None:
            return None
        return pack_answer(self._header, failed_metadata(read_answer(self._header, response), code, selection))

    def _throttled(self, throttle_ms: int, response: Response) -> Response:
        if response is None:
            return None
        message = read_answer(self._header, response)
        if "throttle_time" not in message.__dataclass_fields__:
            return response
        throttled = dataclasses.replace(message, throttle_time=timedelta(milliseconds=throttle_ms))
        return pack_answer(self._header, throttled)

    def _drop(self, fault: Fault, response: Response) -> Response:
        is_answered = fault.effect == Drop("answered")
        if is_answered:
            # The connection writes the answer when this returns.
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: self._node.cut(self._connection, after_answers=True))
        else:
            self._node.cut(self._connection)
        self._faults.note_hit(fault)
        return response if is_answered else None
