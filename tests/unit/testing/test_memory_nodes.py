from __future__ import annotations

import copy
import random

from crabka.testing.memory_nodes import PAGE_BYTES, DirectoryNode, FileNode, NameJournal


def survivors(make: FileNode, runs: int = 300, block_bytes: int = PAGE_BYTES) -> set[bytes]:
    """Return every content that crashes of equal files can leave."""
    found = set()
    for seed in range(runs):
        node = copy.deepcopy(make)
        node.crash(random.Random(seed), block_bytes)
        found.add(bytes(node.content))
    return found


def synced_file(content: bytes) -> FileNode:
    node = FileNode(0)
    node.write(content, 0)
    node.sync()
    return node


def test_unsynced_write_in_one_block_survives_or_not() -> None:
    node = synced_file(b"aaaa")
    node.write(b"bb", 1)
    assert survivors(node) == {b"aaaa", b"abba"}


def test_later_state_of_a_block_includes_the_earlier_ones() -> None:
    node = synced_file(b"0000")
    node.write(b"1", 0)
    node.write(b"2", 1)
    node.write(b"3", 2)
    assert survivors(node) == {b"0000", b"1000", b"1200", b"1230"}


def test_blocks_survive_independently_so_that_tails_tear() -> None:
    node = synced_file(b"")
    node.write(b"xxyyzz", 0)
    found = survivors(node, block_bytes=2)
    assert {b"", b"xxyyzz", b"\0\0yyzz", b"xx\0\0zz", b"xxyy\0\0"} <= found
    assert all(len(content) in (0, 6) for content in found)


def test_length_survives_apart_from_content() -> None:
    node = synced_file(b"")
    node.write(b"aa", 0)
    node.write(b"bb", 2)
    found = survivors(node)
    assert {b"", b"aa", b"aabb", b"\0\0", b"\0\0\0\0"} <= found
    assert b"bb" not in found


def test_unsynced_truncation_survives_or_not() -> None:
    node = synced_file(b"abcdef")
    node.truncate(2)
    assert {b"abcdef", b"ab"} <= survivors(node)
    node.truncate(4)
    assert b"ab\0\0" in survivors(node)


def test_sync_applies_writes_gaps_and_truncations() -> None:
    node = FileNode(0)
    node.write(b"abc", 2)
    node.truncate(4)
    node.write(b"Z", 6)
    expected = bytes(node.content)
    node.sync()
    node.crash(None, PAGE_BYTES)
    assert bytes(node.content) == expected == b"\0\0ab\0\0Z"


def test_names_entangled_by_renames_become_durable_together() -> None:
    journal = NameJournal()
    a, b, c = DirectoryNode(0), DirectoryNode(0), DirectoryNode(0)
    file = FileNode(0)
    journal.record({(a, "f"): file})
    journal.record({(a, "f"): None, (b, "f"): file})
    journal.record({(b, "f"): None, (c, "f"): file})
    journal.sync(a)
    assert (a.durable, b.durable, c.durable) == ({}, {}, {"f": file})


def test_entangled_changes_survive_a_crash_in_order_and_others_freely() -> None:
    outcomes = set()
    for seed in range(200):
        journal = NameJournal()
        directory = DirectoryNode(0)
        journal.record({(directory, "old"): FileNode(0)})
        journal.record({(directory, "old"): None, (directory, "new"): directory.entries["old"]})
        journal.record({(directory, "other"): FileNode(0)})
        journal.crash(random.Random(seed))
        outcomes.add(tuple(sorted(directory.durable)))
    assert outcomes == {(), ("old",), ("new",), ("other",), ("old", "other"), ("new", "other")}


def test_changes_inside_a_durably_removed_directory_are_forgotten() -> None:
    journal = NameJournal()
    root, directory, below = DirectoryNode(0), DirectoryNode(0), DirectoryNode(0)
    journal.record({(root, "d"): directory})
    journal.record({(directory, "below"): below})
    journal.sync(root)
    journal.sync(directory)
    journal.record({(below, "f"): FileNode(0)})
    journal.record({(directory, "below"): None})
    journal.record({(root, "d"): None})
    journal.sync(root)
    assert journal.pending_count == 0
