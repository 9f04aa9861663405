"""One request over a socket of its own, in any version, without a client library."""

from __future__ import annotations

import socket
from typing import Any

from crabka.protocol.apis import ApiKey, encode_request, read_response
from crabka.protocol.headers import RequestHeader, pack_request, parse_response_header
from tests.support.nodes.sim_node import build, row

LENGTH_BYTES = 4


def ask(port: int, api_key: ApiKey, version: int, **fields: Any) -> Any:
    """Send a request to 127.0.0.1 and return the decoded body of the answer."""
    frame = pack_request(
        RequestHeader(int(api_key), version, 1, "raw", 0), encode_request(build(api_key, version, **fields))
    )
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(frame)
        length = int.from_bytes(_read(connection, LENGTH_BYTES), "big")
        answer = memoryview(_read(connection, length))
    _, offset = parse_response_header(answer, int(api_key), version)
    return read_response(int(api_key), version, answer, offset)


def _read(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise ConnectionResetError("the node closed the connection")
        data += part
    return data


def move_replica(port: int, topic: str, partition: int, path: str) -> int:
    """Ask for a replica to lie in a log dir; return the error code."""
    topics = [row("AlterReplicaLogDirTopic", name=topic, partitions=[partition])]
    answer = ask(port, ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=[row("AlterReplicaLogDir", path=path, topics=topics)])
    return int(answer.results[0].partitions[0].error_code)
