from __future__ import annotations

import gc

from crabka.runtime.collector import NEW_OBJECTS, collect_less_often


def test_only_the_number_of_new_objects_changes() -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 11, 12)
        collect_less_often()
        assert gc.get_threshold() == (NEW_OBJECTS, 11, 12)
    finally:
        gc.set_threshold(*before)
