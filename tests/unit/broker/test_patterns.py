"""Patterns of topics."""

from __future__ import annotations

import pytest

from crabka.broker.patterns import compile_pattern, matching_topics
from crabka.errors import OperationError
from crabka.protocol.error_codes import ErrorCode


def test_a_pattern_means_whole_names() -> None:
    assert matching_topics("a.*|c", ["a", "ab", "bab", "c", "cc"]) == {"a", "ab", "c"}


@pytest.mark.parametrize("pattern", ["(", "a(?=b)", r"(a)\1", "[z-a]"])
def test_what_re2_does_not_know_is_refused(pattern: str) -> None:
    with pytest.raises(OperationError) as refused:
        compile_pattern(pattern, "Field")
    assert refused.value.error_code is ErrorCode.invalid_regular_expression
    assert str(refused.value).startswith(f"Field `{pattern}`")
