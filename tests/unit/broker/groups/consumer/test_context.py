"""The context of a group."""

from __future__ import annotations

from dataclasses import replace

from crabka.broker.groups.consumer.context import GroupContext
from crabka.protocol.error_codes import ErrorCode
from tests.support.coordinators.consumer_groups import SETTINGS, catalog_of


def test_settings_are_those_of_the_group_at_the_time_of_use() -> None:
    sizes = {"g": 1}
    context = GroupContext("g", catalog_of(), lambda group_id: replace(SETTINGS, max_size=sizes[group_id]))
    sizes["g"] = 2
    assert context.settings.max_size == 2


def test_an_unknown_member_is_named() -> None:
    error = GroupContext("g", catalog_of(), lambda _group_id: SETTINGS).unknown_member("m")
    assert (error.error_code, str(error)) == (ErrorCode.unknown_member_id, "Member m is not a member of group g.")
