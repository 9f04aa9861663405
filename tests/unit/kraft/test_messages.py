from __future__ import annotations

import dataclasses
from typing import get_args

from crabka.kraft.messages import Request, Response


def test_every_peer_request_names_its_cluster_and_every_answer_its_error() -> None:
    local = {"VersionsRequest", "DescribeRequest", "UpgradeRequest"}
    for message in get_args(Request):
        names = {field.name for field in dataclasses.fields(message)}
        assert "cluster_id" in names or message.__name__ in local
    for message in get_args(Response):
        assert "error" in {field.name for field in dataclasses.fields(message)}
