from __future__ import annotations

from pathlib import Path

import pytest

from crabka.clients.security.pem_text import pem_lines, pem_text_file

BODY = "QUJD" * 40
PEM = f"-----BEGIN CERTIFICATE-----\n{BODY[:64]}\n{BODY[64:128]}\n{BODY[128:]}\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize("line_end", ["\n", " ", "\r\n", "\n   "])
def test_lines_are_those_of_openssl_however_they_ended(line_end: str) -> None:
    assert pem_lines(PEM.replace("\n", line_end)) == PEM


def test_all_blocks_are_kept_and_what_is_around_them_is_not() -> None:
    key = PEM.replace("CERTIFICATE", "ENCRYPTED PRIVATE KEY")
    assert pem_lines(f"Bag Attributes: x\n{PEM}\nsubject=y\n{key}") == PEM + key
    assert pem_lines("no certificate") == ""


def test_headers_of_old_keys_are_kept() -> None:
    old = f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{BODY[:64]}\n-----END RSA PRIVATE KEY-----\n"
    assert pem_lines(old) == old


def test_a_file_holds_the_text_and_is_gone_afterwards() -> None:
    with pem_text_file("ssl.keystore.key", PEM.replace("\n", " ")) as file:
        assert Path(file.path).read_text() == PEM
        assert (file.key, file.place) == ("ssl.keystore.key", "ssl.keystore.key")
    assert not Path(file.path).exists()
