"""Reads and writes the bodies of all Kafka APIs; the package's main entrance.

Untrusted bytes come in through `read_request` and `read_response`, which raise only WireError. Headers and frames are
the business of `protocol.headers` and `protocol.frames`, Produce and Fetch have faster ways in `protocol.hot`.
As Kafka does, bytes after the end of a body are ignored.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from kio.serial import entity_reader

from crabka.errors import WireError
from crabka.ports import Buffer
from crabka.protocol.api_keys import SPECS, ApiKey, ApiSpec
from crabka.protocol.encoder import encode_message
from crabka.protocol.length_guard import length_guard
from crabka.protocol.message_types import MessageTypes, ms, request_types, response_types
from crabka.protocol.schemas import Direction, message_class

__all__ = [
    "SPECS",
    "ApiKey",
    "ApiSpec",
    "MessageTypes",
    "ResponseTypes",
    "encode_message",
    "encode_request",
    "encode_response",
    "ms",
    "read_entity_untrusted",
    "read_request",
    "read_response",
    "request_types",
    "response_types",
]

ResponseTypes = MessageTypes


def read_request(api_key: int, version: int, frame: Buffer, offset: int = 0) -> Any:
    """Decode a request body of a supported API and version. Raises WireError."""
    return _reader(api_key, version, "request")(frame, offset)


def read_response(api_key: int, version: int, frame: Buffer, offset: int = 0) -> Any:
    """Decode a response body of a supported API and version. Raises WireError."""
    return _reader(api_key, version, "response")(frame, offset)


def read_entity_untrusted(entity_class: Any, buffer: Buffer, offset: int = 0) -> Any:
    """Decode any kio-style dataclass from bytes of a peer. Raises WireError."""
    return _entity_reader(entity_class)(buffer, offset)


encode_response = encode_message
encode_request = encode_message


@functools.cache
def _reader(api_key: int, version: int, direction: Direction) -> Callable[[Buffer, int], Any]:
    return _entity_reader(message_class(api_key, version, direction))


@functools.cache
def _entity_reader(entity_class: Any) -> Callable[[Buffer, int], Any]:
    check_lengths = length_guard(entity_class)
    read = entity_reader(entity_class)
    name = entity_class.__name__

    def read_untrusted(buffer: Buffer, offset: int) -> Any:
        view = memoryview(buffer).toreadonly()
        check_lengths(view, offset)
        try:
            return read(view, offset)[0]
        # kio promises no set of exceptions: garbage shows as its own errors, ValueError, OverflowError and others.
        except Exception as error:
            raise WireError(f"malformed {name}: {error}") from error

    return read_untrusted
