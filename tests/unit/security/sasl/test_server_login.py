"""The log-in of a connection, step by step: what Apache Kafka's SaslServerAuthenticator answers."""

from __future__ import annotations

from typing import Any

import pytest

from crabka.protocol.apis import ApiKey, encode_request, read_response, request_types
from crabka.protocol.error_codes import ErrorCode
from crabka.protocol.headers import RequestHeader, pack_request, parse_response_header
from crabka.security.principal import Principal
from crabka.security.sasl.plain_server import PlainServer
from crabka.security.sasl.scram_keys import SCRAM_SHA_256
from crabka.security.sasl.scram_server import ScramServer, UnknownUsers
from crabka.security.sasl.server_login import (
    Answered,
    LoggedIn,
    LoginAction,
    LoginRules,
    PassOn,
    Refused,
    ServerLogin,
    Session,
    begins_login,
)
from crabka.security.secret import Secret

ALICE = Principal("User", "alice")
RULES = LoginRules(
    ("SCRAM-SHA-256", "PLAIN"),
    lambda _mechanism: PlainServer({"alice": Secret("wonder"), "bob": Secret("builder")}),
    {"PLAIN": 0},
)
BRIEF = LoginRules(RULES.mechanisms, RULES.begin, {"PLAIN": 60_000})


def frame(api_key: ApiKey, version: int, **fields: Any) -> memoryview:
    body = encode_request(request_types(api_key, version).message(**fields))
    return memoryview(pack_request(RequestHeader(api_key, version, 7, "me", 0), body))[4:]


def versions(version: int = 3) -> memoryview:
    return frame(ApiKey.API_VERSIONS, version, client_software_name="me", client_software_version="1")


def handshake(mechanism: str = "PLAIN", version: int = 1) -> memoryview:
    return frame(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)


def token(text: str = "\0alice\0wonder", version: int = 2) -> memoryview:
    return frame(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=text.encode())


def decoded(data: bytes | None, api_key: ApiKey, version: int) -> Any:
    assert data is not None
    assert int.from_bytes(data[:4]) == len(data) - 4
    view = memoryview(data)[4:]
    correlation_id, offset = parse_response_header(view, api_key, version)
    assert correlation_id == 7
    return read_response(api_key, version, view, offset)


def authenticate_answer(action: LoginAction, version: int = 2) -> Any:
    assert isinstance(action, Answered | LoggedIn | Refused)
    return decoded(action.frame, ApiKey.SASL_AUTHENTICATE, version)


@pytest.mark.parametrize("with_versions", [True, False])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_log_in_with_requests(version: int, *, with_versions: bool) -> None:
    login = ServerLogin(RULES)
    if with_versions:
        assert login.receive(versions()) == PassOn()
    begun = login.receive(handshake())
    assert isinstance(begun, Answered)
    answer = decoded(begun.frame, ApiKey.SASL_HANDSHAKE, 1)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.none, ("SCRAM-SHA-256", "PLAIN"))
    done = login.receive(token(version=version))
    assert isinstance(done, LoggedIn)
    assert done.session == Session(ALICE, "PLAIN", None)
    answer = authenticate_answer(done, version)
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (ErrorCode.none, "", b"")
    assert isinstance(login.receive(token()), Refused)


def test_log_in_with_raw_tokens() -> None:
    login = ServerLogin(RULES)
    login.receive(handshake(version=0))
    done = login.receive(memoryview(b"\0alice\0wonder"))
    assert isinstance(done, LoggedIn)
    assert (done.frame, done.session.principal) == (b"\0\0\0\0", ALICE)


def test_refused_raw_token_has_no_answer() -> None:
    login = ServerLogin(RULES)
    login.receive(handshake(version=0))
    action = login.receive(memoryview(b"\0alice\0wonderland"))
    assert isinstance(action, Refused)
    assert (action.frame, action.mechanism) == (None, "PLAIN")


def test_lifetime_of_a_session_is_in_the_last_answer() -> None:
    login = ServerLogin(BRIEF)
    login.receive(handshake())
    done = login.receive(token())
    assert isinstance(done, LoggedIn)
    assert done.session.lifetime_ms == 60_000
    assert authenticate_answer(done).session_lifetime.total_seconds() == 60


def test_mechanism_that_is_not_enabled() -> None:
    action = ServerLogin(RULES).receive(handshake("SCRAM-SHA-512"))
    assert isinstance(action, Refused)
    answer = decoded(action.frame, ApiKey.SASL_HANDSHAKE, 1)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.unsupported_sasl_mechanism, RULES.mechanisms)
    assert "SCRAM-SHA-512" not in action.reason, "a client may have sent a password as the mechanism"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\0alice\0wonderland", "Authentication failed: Invalid username or password"),
        ("alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
def test_refused_token(text: str, message: str) -> None:
    login = ServerLogin(RULES)
    login.receive(handshake())
    action = login.receive(token(text))
    assert isinstance(action, Refused)
    answer = authenticate_answer(action)
    assert (answer.error_code, answer.error_message) == (ErrorCode.sasl_authentication_failed, message)
    assert (answer.auth_bytes, answer.session_lifetime.total_seconds()) == (b"", 0)
    assert "alice" not in action.reason


def test_versions_may_be_asked_again_after_an_unknown_version_only() -> None:
    unknown = memoryview(bytes(versions()[:2]) + (99).to_bytes(2) + bytes(versions()[4:]))
    login = ServerLogin(RULES)
    assert [login.receive(each) for each in (unknown, unknown, versions())] == [PassOn()] * 3
    assert isinstance(login.receive(versions()), Refused)


@pytest.mark.parametrize("before", [0, 1, 2])
def test_other_requests_end_the_connection(before: int) -> None:
    login = ServerLogin(RULES)
    for each in (versions(), handshake())[:before]:
        login.receive(each)
    action = login.receive(frame(ApiKey.LIST_GROUPS, 4, states_filter=()))
    assert isinstance(action, Refused)
    assert action.frame is None
    assert "LIST_GROUPS" in action.reason


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\x60\x82\x02\x1a\x06\x09\x2a\x86\x48",
        b"\0alice\0canary-password",
        bytes(handshake())[:12],
        bytes(handshake())[:2] + b"\0\x09" + bytes(handshake())[4:],
    ],
)
def test_garbage_ends_the_connection_without_a_trace_of_it(data: bytes) -> None:
    action = ServerLogin(RULES).receive(memoryview(data))
    assert isinstance(action, Refused)
    assert action.frame is None
    assert "canary" not in action.reason


# --- the same connection again

SESSION = Session(ALICE, "PLAIN", 60_000)
SCRAM_SESSION = SESSION._replace(mechanism="SCRAM-SHA-256")


def test_log_in_again() -> None:
    assert begins_login(handshake())
    assert not begins_login(versions())
    login = ServerLogin(BRIEF, SESSION)
    assert isinstance(login.receive(handshake()), Answered)
    done = login.receive(token())
    assert isinstance(done, LoggedIn)
    assert done.session == SESSION


def test_log_in_again_as_another_user() -> None:
    login = ServerLogin(BRIEF, SESSION)
    login.receive(handshake())
    action = login.receive(token("\0bob\0builder"))
    assert isinstance(action, Refused)
    message = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert authenticate_answer(action).error_message == message


def test_log_in_again_with_another_mechanism() -> None:
    login = ServerLogin(BRIEF, SESSION)
    assert isinstance(login.receive(handshake("SCRAM-SHA-256")), Answered)
    action = login.receive(token())
    assert isinstance(action, Refused)
    assert action.frame is None


def test_log_in_again_with_a_wrong_password() -> None:
    login = ServerLogin(BRIEF, SESSION)
    login.receive(handshake())
    action = login.receive(token("\0alice\0wr0ng"))
    assert authenticate_answer(action).error_message == "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(("previous", "when"), [(None, "authentication"), (SCRAM_SESSION, "re-authentication")])
def test_refusal_without_a_text_of_its_own(previous: Session | None, when: str) -> None:
    rules = LoginRules(
        ("SCRAM-SHA-256",), lambda _: ScramServer(SCRAM_SHA_256, lambda _: None, UnknownUsers(b"k"), "n"), {}
    )
    login = ServerLogin(rules, previous)
    login.receive(handshake("SCRAM-SHA-256"))
    action = login.receive(token("n,,nonsense"))
    message = f"Authentication failed during {when} due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    assert authenticate_answer(action).error_message == message
