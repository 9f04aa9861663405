"""The messages of the quorum core as Kafka's wire messages, in both directions."""

from crabka.quorum.raft.messages.requests import API_KEYS, decode_request, encode_request, min_version
from crabka.quorum.raft.messages.responses import decode_response, encode_refusal, encode_response

__all__ = [
    "API_KEYS",
    "decode_request",
    "decode_response",
    "encode_refusal",
    "encode_request",
    "encode_response",
    "min_version",
]
