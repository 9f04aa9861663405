"""Names of packages that are loaded on demand."""

from __future__ import annotations

import pytest

import crabka.clients
from crabka.lazy_exports import lazy_exports


def test_a_name_is_found_in_its_module_and_others_are_not() -> None:
    find = lazy_exports("crabka", {"ids": ["uuid_to_text"]})
    assert find("uuid_to_text").__module__ == "crabka.ids"
    with pytest.raises(AttributeError, match="module 'crabka' has no attribute 'nothing'"):
        find("nothing")


def test_all_public_names_of_the_clients_can_be_had() -> None:
    assert all(getattr(crabka.clients, name) is not None for name in crabka.clients.__all__)
