"""Secrets show only to who asks."""

from __future__ import annotations

from crabka.security.secret import Secret


def test_a_secret_is_hidden_in_every_text() -> None:
    secret = Secret("pencil")
    shown = f"{secret} {secret!r} {[secret]} {secret!s:>20}" + "%s" % secret  # noqa: UP031 - that way too
    assert "pencil" not in shown
    assert shown.count("[hidden]") == 5
    assert secret.reveal() == "pencil"


def test_secrets_are_equal_by_content() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
