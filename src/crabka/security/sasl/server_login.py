"""The log-in of a connection at a SASL listener, as Kafka's SaslServerAuthenticator does it (KIP-43, 152, 368).

Before a client has authenticated it may send ApiVersions, then SaslHandshake, which names a mechanism, then the tokens
of that mechanism: raw after SaslHandshake v0, in SaslAuthenticate requests after v1. Anything else ends the connection.
A client whose session is limited logs in again on the same connection, with the same mechanism and as the same user;
it begins that with another SaslHandshake.

Pure: frames come in, actions go out. Who carries them out delays what a refused client receives.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crabka.errors import WireError
from crabka.protocol.apis import ApiKey, encode_response, read_request, response_types
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.headers import RequestHeader, UnsupportedApiError, pack_response, parse_request_header
from crabka.security.principal import USER, Principal
from crabka.security.sasl.exchange import SaslRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from crabka.security.sasl.exchange import ServerExchange

_FIRST_VERSION_WITH_REQUESTS: Final = 1
_LENGTH_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class LoginRules:
    """What a listener expects of log-ins."""

    mechanisms: Sequence[str]
    # Begins the exchange of one of the mechanisms.
    begin: Callable[[str], ServerExchange]
    # How long the session of a mechanism lasts; 0 or missing: for ever.
    session_ms: Mapping[str, int]


class Session(NamedTuple):
    """Who is logged in, and how."""

    principal: Principal
    mechanism: str
    lifetime_ms: int | None


@dataclass(frozen=True, slots=True)
class PassOn:
    """The frame is ApiVersions: the node answers it as for any client."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The log-in goes on; this is the answer to the frame."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """The client is known; requests are served after this answer."""

    frame: bytes
    session: Session


@dataclass(frozen=True, slots=True)
class Refused:
    """The connection ends, after the answer if there is one. The reason is for the log."""

    frame: bytes | None
    reason: str
    mechanism: str | None


LoginAction = PassOn | Answered | LoggedIn | Refused


class _Stage(enum.Enum):
    """What may come next."""

    VERSIONS_OR_HANDSHAKE = enum.auto()
    HANDSHAKE = enum.auto()
    RAW_TOKENS = enum.auto()
    TOKENS = enum.auto()
    WRONG_MECHANISM = enum.auto()
    OVER = enum.auto()


class ServerLogin:
    """One log-in; `receive` takes frames until it returns LoggedIn or Refused."""

    def __init__(self, rules: LoginRules, previous: Session | None = None) -> None:
        """With a session that goes on: the log-in begins with SaslHandshake and has to lead to the same user."""
        self._rules = rules
        self._previous = previous
        self._stage = _Stage.VERSIONS_OR_HANDSHAKE if previous is None else _Stage.HANDSHAKE
        self._mechanism: str | None = None
        self._exchange: ServerExchange | None = None

    def receive(self, frame: memoryview) -> LoginAction:
        """Take the next frame, without its length."""
        stage = self._stage
        try:
            match stage:
                case _Stage.VERSIONS_OR_HANDSHAKE | _Stage.HANDSHAKE:
                    return self._on_request(frame)
                case _Stage.RAW_TOKENS:
                    return self._on_raw_token(frame)
                case _Stage.TOKENS:
                    return self._on_authenticate(frame)
                case _Stage.WRONG_MECHANISM:
                    return self._refuse("a session goes on with the mechanism that it began with")
                case _Stage.OVER:
                    return self._refuse("a frame came after the end of the log-in")
        except WireError:
            # The text of the error could repeat a part of a password.
            return self._refuse("it sent a frame that cannot be read")

    # --- before the tokens

    def _on_request(self, frame: memoryview) -> LoginAction:
        try:
            header = parse_request_header(frame)
        except UnsupportedApiError as error:
            # It is answered with the versions that there are; the client may ask again.
            if error.is_api_versions and self._stage is _Stage.VERSIONS_OR_HANDSHAKE:
                return PassOn()
            raise
        if header.api_key == ApiKey.API_VERSIONS and self._stage is _Stage.VERSIONS_OR_HANDSHAKE:
            self._stage = _Stage.HANDSHAKE
            return PassOn()
        if header.api_key != ApiKey.SASL_HANDSHAKE:
            return self._refuse(f"it sent {_name(header)} before it logged in")
        return self._on_handshake(header, frame)

    def _on_handshake(self, header: RequestHeader, frame: memoryview) -> LoginAction:
        mechanism: str = read_request(header.api_key, header.api_version, frame, header.body_offset).mechanism
        enabled = mechanism in self._rules.mechanisms
        code = ErrorCode.none if enabled else ErrorCode.unsupported_sasl_mechanism
        answer = _packed(header, error_code=code, mechanisms=self._rules.mechanisms)
        if not enabled:
            return self._refuse("it asked for a mechanism that is not in sasl.enabled.mechanisms", answer)
        self._mechanism = mechanism
        if self._previous is not None and mechanism != self._previous.mechanism:
            self._stage = _Stage.WRONG_MECHANISM
            return Answered(answer)
        self._exchange = self._rules.begin(mechanism)
        in_requests = header.api_version >= _FIRST_VERSION_WITH_REQUESTS
        self._stage = _Stage.TOKENS if in_requests else _Stage.RAW_TOKENS
        return Answered(answer)

    # --- tokens

    def _on_raw_token(self, frame: memoryview) -> LoginAction:
        try:
            token, session = self._evaluate(bytes(frame))
        except SaslRefusedError as error:
            return self._refuse(error.reason)
        answer = len(token).to_bytes(_LENGTH_BYTES) + token
        return Answered(answer) if session is None else self._log_in(answer, session)

    def _on_authenticate(self, frame: memoryview) -> LoginAction:
        header = parse_request_header(frame)
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            return self._refuse(f"it sent {_name(header)} in the middle of the log-in")
        body = read_request(header.api_key, header.api_version, frame, header.body_offset)
        try:
            token, session = self._evaluate(bytes(body.auth_bytes))
        except SaslRefusedError as error:
            again = "authentication" if self._previous is None else "re-authentication"
            general = (
                f"Authentication failed during {again} due to invalid credentials with SASL mechanism {self._mechanism}"
            )
            code = ErrorCode.sasl_authentication_failed
            answer = _authenticate_answer(header, b"", code=code, message=error.shown or general)
            return self._refuse(error.reason, answer)
        lifetime_ms = 0 if session is None else session.lifetime_ms or 0
        answer = _authenticate_answer(header, token, lifetime_ms=lifetime_ms)
        return Answered(answer) if session is None else self._log_in(answer, session)

    def _evaluate(self, token: bytes) -> tuple[bytes, Session | None]:
        """Return the answer to a token, and the session if the exchange is complete. Raises SaslRefusedError."""
        exchange, mechanism = self._exchange, self._mechanism
        if exchange is None or mechanism is None:
            raise SaslRefusedError("there is no exchange")
        answer = exchange.respond(token)
        if exchange.user is None:
            return answer, None
        session = Session(Principal(USER, exchange.user), mechanism, self._rules.session_ms.get(mechanism) or None)
        before = self._previous
        if before is not None and before.principal != session.principal:
            changed = f"{before.principal.kind}.{before.principal.name}: {USER}.{exchange.user}"
            raise SaslRefusedError(
                "a session goes on as the user that it began with",
                shown=f"Cannot change principals during re-authentication from {changed}",
            )
        return answer, session

    def _log_in(self, answer: bytes, session: Session) -> LoginAction:
        self._stage = _Stage.OVER
        return LoggedIn(answer, session)

    def _refuse(self, reason: str, frame: bytes | None = None) -> Refused:
        self._stage = _Stage.OVER
        return Refused(frame, reason, self._mechanism)


def begins_login(frame: memoryview) -> bool:
    """Return whether a frame is a SaslHandshake, by which a client logs in again."""
    return frame[:2] == ApiKey.SASL_HANDSHAKE.to_bytes(2)


def _name(header: RequestHeader) -> str:
    return ApiKey(header.api_key).name


def _authenticate_answer(
    header: RequestHeader,
    token: bytes,
    *,
    code: ErrorCode = ErrorCode.none,
    message: str = "",
    lifetime_ms: int = 0,
) -> bytes:
    return _packed(header, error_code=code, error_message=message, auth_bytes=token, session_lifetime=lifetime_ms)


def _packed(header: RequestHeader, **fields: Any) -> bytes:
    types = response_types(header.api_key, header.api_version)
    body = encode_response(types.message(**fields))
    return pack_response(header.api_key, header.api_version, header.correlation_id, body)
