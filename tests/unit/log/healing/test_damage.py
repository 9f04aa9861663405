"""Which offsets of a log are damaged."""

from __future__ import annotations

from crabka.log.healing.damage import DamagedRange, LogDamage

FIRST = DamagedRange(0, 100, 200, 5, 8)
SECOND = DamagedRange(0, 400, 500, 12, 13)
OTHER = DamagedRange(50, 0, 90, 50, 53)


def damage() -> LogDamage:
    made = LogDamage()
    made.replace(50, [OTHER])
    made.replace(0, [FIRST, SECOND])
    return made


def test_an_offset_is_looked_up_in_all_segments() -> None:
    made = damage()
    assert list(made) == [FIRST, SECOND, OTHER]
    found = [made.at(offset) for offset in (4, 5, 7, 8, 12, 13, 49, 52, 53)]
    assert found == [None, FIRST, FIRST, None, SECOND, None, None, OTHER, None]


def test_the_neighbours_of_an_offset_lie_in_its_segment() -> None:
    made = damage()
    assert (made.before(0, 4), made.before(0, 8), made.before(0, 20)) == (None, FIRST, SECOND)
    assert (made.after(0, 4), made.after(0, 8), made.after(0, 20)) == (FIRST, SECOND, None)
    assert made.before(50, 49) is None


def test_damage_goes_with_what_it_lies_in() -> None:
    made = damage()
    made.truncate(12)
    assert list(made) == [FIRST]
    made = damage()
    made.keep([50])
    assert list(made) == [OTHER]
    made.replace(50, [])
    assert not len(made)
