"""Assignors of consumer groups: every partition has one owner that wants it, shares are fair, members keep theirs."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from crabka.broker.groups.consumer.assignors import range as range_assignor
from crabka.broker.groups.consumer.assignors import uniform
from crabka.broker.groups.consumer.assignors.spec import AssignmentSpec, Partitions, SpecMember

TOPICS = [uuid.UUID(int=number + 1) for number in range(4)]


@st.composite
def specs(draw: st.DrawFn, *, homogeneous: bool | None = None) -> AssignmentSpec:
    counts = {topic_id: draw(st.integers(0, 7)) for topic_id in TOPICS}
    is_same = draw(st.booleans()) if homogeneous is None else homogeneous
    topics = st.sets(st.sampled_from(TOPICS)).map(lambda found: tuple(sorted(found)))
    shared = draw(topics)
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True))
    old: dict[str, dict[uuid.UUID, set[int]]] = {name: {} for name in names}
    for topic_id, count in counts.items():
        for partition in range(count):
            owner = draw(st.sampled_from([None, *names]))
            if owner is not None:
                old[owner].setdefault(topic_id, set()).add(partition)
    members = {
        name: SpecMember(
            draw(st.sampled_from([None, f"i-{name}"])),
            shared if is_same else draw(topics),
            {topic_id: frozenset(partitions) for topic_id, partitions in old[name].items()},
        )
        for name in names
    }
    return AssignmentSpec(members, counts)


def check_owners(spec: AssignmentSpec, shares: dict[str, Partitions]) -> None:
    assert set(shares) == set(spec.members)
    for topic_id, count in spec.partition_counts.items():
        owned = [each for share in shares.values() for each in share.get(topic_id, ())]
        is_wanted = any(topic_id in member.topics for member in spec.members.values())
        assert sorted(owned) == (list(range(count)) if is_wanted else [])
    for name, share in shares.items():
        assert set(share) <= set(spec.members[name].topics)


def again(spec: AssignmentSpec, shares: dict[str, Partitions]) -> AssignmentSpec:
    members = {name: member._replace(assignment=shares[name]) for name, member in spec.members.items()}
    return spec._replace(members=members)


def size(share: Partitions) -> int:
    return sum(len(partitions) for partitions in share.values())


@given(specs())
def test_uniform_gives_every_partition_one_owner_and_then_rests(spec: AssignmentSpec) -> None:
    shares = uniform.assign(spec)
    check_owners(spec, shares)
    assert uniform.assign(again(spec, shares)) == shares


@given(specs(homogeneous=True))
def test_uniform_is_fair_and_moves_no_more_than_it_must(spec: AssignmentSpec) -> None:
    shares = uniform.assign(spec)
    sizes = [size(share) for share in shares.values()]
    assert max(sizes) - min(sizes) <= 1
    quota, extra = divmod(sum(sizes), len(sizes))
    for position, (name, member) in enumerate(spec.members.items()):
        wanted = {topic_id: old for topic_id, old in member.assignment.items() if topic_id in member.topics}
        kept = sum(len(old & shares[name].get(topic_id, frozenset())) for topic_id, old in wanted.items())
        assert kept == min(size(wanted), quota + (position < extra))


@given(specs(homogeneous=False))
def test_uniform_leaves_no_move_that_would_be_fairer(spec: AssignmentSpec) -> None:
    shares = uniform.assign(spec)
    for rich, share in shares.items():
        for topic_id in share:
            for poor, member in spec.members.items():
                if topic_id in member.topics:
                    assert size(shares[rich]) - size(shares[poor]) <= 1


@given(specs())
def test_range_gives_runs_of_fair_length(spec: AssignmentSpec) -> None:
    shares = range_assignor.assign(spec)
    check_owners(spec, shares)
    for topic_id, count in spec.partition_counts.items():
        subscribers = [name for name, member in spec.members.items() if topic_id in member.topics]
        for name in subscribers:
            numbers = sorted(shares[name].get(topic_id, ()))
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
            assert len(numbers) - count // len(subscribers) in (0, 1)


@given(specs(homogeneous=True))
def test_range_gives_the_same_numbers_of_topics_of_one_size(spec: AssignmentSpec) -> None:
    shares = range_assignor.assign(spec._replace(partition_counts=dict.fromkeys(TOPICS, 5)))
    for share in shares.values():
        assert len({frozenset(partitions) for partitions in share.values()}) <= 1
