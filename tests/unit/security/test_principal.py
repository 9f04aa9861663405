"""Principals: text and wire forms."""

from __future__ import annotations

import pytest

from crabka.errors import WireError
from crabka.security.principal import ANONYMOUS, Principal, pack_principal, parse_principal, unpack_principal

# DefaultPrincipalData, version 0: type "User", name "ANONYMOUS", no token, no tagged fields.
PACKED_ANONYMOUS = b"\x00\x00\x05User\x0aANONYMOUS\x00\x00"


def test_the_anonymous_user_is_packed_as_kafka_packs_it() -> None:
    assert pack_principal(ANONYMOUS) == PACKED_ANONYMOUS


@pytest.mark.parametrize(
    "principal",
    [ANONYMOUS, Principal("User", "CN=a,OU=b", by_token=True), Principal("User", "ü" * 200), Principal("Group", "g:1")],
)
def test_packed_principals_are_read_back(principal: Principal) -> None:
    assert unpack_principal(pack_principal(principal)) == principal
    assert parse_principal(str(principal)) == principal._replace(by_token=False)


@pytest.mark.parametrize("length", range(len(PACKED_ANONYMOUS) - 1))
def test_cut_principals_are_refused(length: int) -> None:
    with pytest.raises(WireError):
        unpack_principal(PACKED_ANONYMOUS[:length])


@pytest.mark.parametrize(
    "packed",
    [
        b"\x00\x01" + PACKED_ANONYMOUS[2:],
        b"\x00\x00\x00" + PACKED_ANONYMOUS[3:],
        b"\x00\x00\xff\xff\xff\xff\xff\x0f" + PACKED_ANONYMOUS[3:],
        b"\x00\x00\x05\xff\xff\xff\xff" + PACKED_ANONYMOUS[7:],
        PACKED_ANONYMOUS[:-2] + b"\x02\x00",
    ],
)
def test_malformed_principals_are_refused(packed: bytes) -> None:
    with pytest.raises(WireError):
        unpack_principal(packed)


@pytest.mark.parametrize("text", ["", "User", "User:", ":alice"])
def test_a_text_without_kind_or_name_is_no_principal(text: str) -> None:
    with pytest.raises(ValueError, match="principalType:principalName"):
        parse_principal(text)
