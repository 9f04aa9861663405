from __future__ import annotations

from crabka.metadata.draft import MappingDraft


def test_an_untouched_draft_hands_on_its_base() -> None:
    base = {"a": 1}
    draft = MappingDraft(base)
    assert draft.remove("missing") is None
    assert draft.get("a") == 1
    assert draft.current is base


def test_changes_leave_the_base_alone() -> None:
    base = {"a": 1, "b": 2}
    draft = MappingDraft(base)
    draft.set("c", 3)
    assert draft.remove("a") == 1
    assert draft.current == {"b": 2, "c": 3}
    assert base == {"a": 1, "b": 2}


def test_the_base_is_copied_only_once() -> None:
    draft = MappingDraft({"a": 1})
    draft.set("b", 2)
    copy = draft.current
    draft.set("c", 3)
    assert draft.current is copy
