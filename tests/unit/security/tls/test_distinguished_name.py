"""Subjects of certificates as Java's X500Principal.getName writes them: the names were written by Java 17."""

from __future__ import annotations

import base64
import random

import pytest

from crabka.errors import WireError
from crabka.security.tls.distinguished_name import subject_of
from tests.support.scale import scaled

WRITTEN_BY_JAVA = [
    (
        "CN=alice,OU=a b,O=Example\\, Inc.,L=Mitte,ST=Berlin,C=DE",
        (
            "MIIBxDCCAWkCFHUVthR1WxwgyTcBW//dBGkl8womMAoGCCqGSM49BAMCMGQxCzAJBgNVBAYTAkRFMQ8wDQYDVQQIDAZCZXJsaW4x"
            "DjAMBgNVBAcMBU1pdHRlMRYwFAYDVQQKDA1FeGFtcGxlLCBJbmMuMQwwCgYDVQQLDANhIGIxDjAMBgNVBAMMBWFsaWNlMB4XDTI2"
            "MTExOTA0NTAxOVoXDTI2MTEyMTA0NTAxOVowZDELMAkGA1UEBhMCREUxDzANBgNVBAgMBkJlcmxpbjEOMAwGA1UEBwwFTWl0dGUx"
            "FjAUBgNVBAoMDUV4YW1wbGUsIEluYy4xDDAKBgNVBAsMA2EgYjEOMAwGA1UEAwwFYWxpY2UwWTATBgcqhkjOPQIBBggqhkjOPQMB"
            "BwNCAAT1wUto419T7pijtBZcDLzBRG7r5X+0g6gS87r4F8IIzjfgGWlczZ3XfxwuFEXJQjUcgRcgyFqjwYoSpXJ/tJKUMAoGCCqG"
            "SM49BAMCA0kAMEYCIQC3XjJYH8I7IrMdrfsqE8GgEglJ0u2RkOe3mf4KWv2KegIhAIbQ3s7d9ypczmJxyIn12mOOA5kcxk4bww0K"
            "s0p5yfnX"
        ),
    ),
    (
        'CN=\\ \\ a\\=b\\#c\\;d\\"e\\<f\\>g\\\\h\\ \\ ,UID=u1,DC=org',
        (
            "MIIBiTCCAS8CFDIgTcr6cRGQm547w3QqDcgSixEeMAoGCCqGSM49BAMCMEcxEzARBgoJkiaJk/IsZAEZFgNvcmcxEjAQBgoJkiaJ"
            "k/IsZAEBDAJ1MTEcMBoGA1UEAwwTICBhPWIjYztkImU8Zj5nXGggIDAeFw0yNjExMTkwNDUwMTlaFw0yNjExMjEwNDUwMTlaMEcx"
            "EzARBgoJkiaJk/IsZAEZFgNvcmcxEjAQBgoJkiaJk/IsZAEBDAJ1MTEcMBoGA1UEAwwTICBhPWIjYztkImU8Zj5nXGggIDBZMBMG"
            "ByqGSM49AgEGCCqGSM49AwEHA0IABPXBS2jjX1PumKO0FlwMvMFEbuvlf7SDqBLzuvgXwgjON+AZaVzNndd/HC4URclCNRyBFyDI"
            "WqPBihKlcn+0kpQwCgYIKoZIzj0EAwIDSAAwRQIgO64bJmG0+lzm3zaD30PZhQkNBHdb7hIqGB8zRrlBCx0CIQC1sgaM71Q7sC9q"
            "BWjJhP125x/t/6oIxe82fCYmGwJf5A=="
        ),
    ),
    (
        "2.5.4.5=#1303313233,1.2.840.113549.1.9.1=#160d7a406578616d706c652e6f7267,CN=żółw",
        (
            "MIIBdzCCAR0CFDcwcWJEDFm2KR9Y9cSCHOVmOvPWMAoGCCqGSM49BAMCMD4xEDAOBgNVBAMMB8W8w7PFgncxHDAaBgkqhkiG9w0B"
            "CQEWDXpAZXhhbXBsZS5vcmcxDDAKBgNVBAUTAzEyMzAeFw0yNjExMTkwNDUwMTlaFw0yNjExMjEwNDUwMTlaMD4xEDAOBgNVBAMM"
            "B8W8w7PFgncxHDAaBgkqhkiG9w0BCQEWDXpAZXhhbXBsZS5vcmcxDDAKBgNVBAUTAzEyMzBZMBMGByqGSM49AgEGCCqGSM49AwEH"
            "A0IABPXBS2jjX1PumKO0FlwMvMFEbuvlf7SDqBLzuvgXwgjON+AZaVzNndd/HC4URclCNRyBFyDIWqPBihKlcn+0kpQwCgYIKoZI"
            "zj0EAwIDSAAwRQIgSiEabhM6ZOvTCBNXX/Wz9Q8SRQkv8GLm3gY5wAQTwXICIQCZK9IBnBK8LukreggjQVdtMpobHpIueyHIxq5p"
            "+HjMEg=="
        ),
    ),
    (
        "CN=a+UID=b,O=M",
        (
            "MIIBTDCB8wIUZj4m3s/9n5ZMu5e3bhbolvZ6wNswCgYIKoZIzj0EAwIwKTEKMAgGA1UECgwBTTEbMAgGA1UEAwwBYTAPBgoJkiaJ"
            "k/IsZAEBDAFiMB4XDTI2MTExOTA0NTAxOVoXDTI2MTEyMTA0NTAxOVowKTEKMAgGA1UECgwBTTEbMAgGA1UEAwwBYTAPBgoJkiaJ"
            "k/IsZAEBDAFiMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE9cFLaONfU+6Yo7QWXAy8wURu6+V/tIOoEvO6+BfCCM434BlpXM2d"
            "138cLhRFyUI1HIEXIMhao8GKEqVyf7SSlDAKBggqhkjOPQQDAgNIADBFAiB0J5PqAxDBBENOTGtA5inLuQxteA84rELd1NYenxOQ"
            "1gIhAIX1GdXqnkWguKgRFgYpzOr6YnOA6cCGz7JanYuL22Bp"
        ),
    ),
]


@pytest.mark.parametrize(("name", "certificate"), WRITTEN_BY_JAVA)
def test_name_is_that_of_java(name: str, certificate: str) -> None:
    assert subject_of(base64.b64decode(certificate)) == name


def test_garbage_is_an_error_of_the_peer() -> None:
    rng = random.Random(1)
    whole = base64.b64decode(WRITTEN_BY_JAVA[1][1])
    for _ in range(scaled(500, 50_000)):
        changed = bytearray(whole[: rng.choice((len(whole), rng.randrange(len(whole))))])
        for _ in range(rng.randrange(1, 8)):
            if changed:
                changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            subject_of(bytes(changed))
        except WireError:
            continue
