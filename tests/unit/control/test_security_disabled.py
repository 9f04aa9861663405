"""What ACL requests are told."""

from __future__ import annotations

from crabka.control.security_disabled import NO_AUTHORIZER, SECURITY_DISABLED


def test_the_words_are_kafkas() -> None:
    assert (int(SECURITY_DISABLED), NO_AUTHORIZER) == (54, "No Authorizer is configured.")
