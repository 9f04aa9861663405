from __future__ import annotations

import json

from crabka.protocol.error_codes import ErrorCode, error_message
from tests.support.recorded.files import GOLDEN


def test_names_messages_and_retriability_are_those_of_kafka() -> None:
    expected = {
        int(code): (row["name"], row["message"], row["retriable"])
        for code, row in json.loads((GOLDEN / "errors.json").read_text()).items()
    }
    assert {int(code): (code.name.upper(), error_message(code), code.retriable) for code in ErrorCode} == expected
