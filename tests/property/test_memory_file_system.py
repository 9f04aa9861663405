"""The file system in memory against two judges: the operating system, and a model of what a crash may leave."""

from __future__ import annotations

import random
import tempfile
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from crabka.testing import MemoryFileSystem
from crabka.vfs import OsFileSystem, read_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabka.ports import File, FileSystem

NAMES = ("a", "b", "a/x", "a/y", "b/x", "a/x/z", "c")
paths = st.sampled_from(NAMES)
positions = st.integers(0, 20)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("write"), paths, st.binary(max_size=12), positions),
        st.tuples(st.just("truncate"), paths, positions),
        st.tuples(st.just("read"), paths, positions, positions),
        st.tuples(st.sampled_from(("create", "exclusive", "makedirs", "unlink", "rmtree", "listdir", "sync")), paths),
        st.tuples(st.just("rename"), paths, paths),
    ),
    max_size=40,
)


class Driver:
    """Carries out operations below a root and returns their outcome, errors included."""

    def __init__(self, fs: FileSystem, root: str) -> None:
        self.fs = fs
        self.root = root

    def outcome(self, operation: tuple[Any, ...]) -> object:
        name, path, *arguments = operation
        try:
            return getattr(self, name)(f"{self.root}/{path}", *arguments)
        except OSError as error:
            return type(error), error.errno

    def with_file(self, path: str, use: Callable[[File], object], *, create: bool = False) -> object:
        file = self.fs.open(path, create=create)
        try:
            return use(file)
        finally:
            file.close()

    def write(self, path: str, data: bytes, position: int) -> object:
        return self.with_file(path, lambda file: (file.pwritev([data], position), file.size()), create=True)

    def truncate(self, path: str, size: int) -> object:
        return self.with_file(path, lambda file: file.truncate(size))

    def read(self, path: str, length: int, position: int) -> object:
        return self.with_file(path, lambda file: file.pread(length, position))

    def create(self, path: str) -> None:
        self.fs.open(path, create=True).close()

    def exclusive(self, path: str) -> None:
        self.fs.open(path, exclusive=True).close()

    def makedirs(self, path: str) -> None:
        self.fs.makedirs(path)

    def unlink(self, path: str) -> None:
        self.fs.unlink(path)

    def rmtree(self, path: str) -> None:
        self.fs.rmtree(path)

    def listdir(self, path: str) -> list[str]:
        return self.fs.listdir(path)

    def sync(self, path: str) -> None:
        self.fs.fsync_dir(path)

    def rename(self, path: str, new: str) -> None:
        self.fs.rename(path, f"{self.root}/{new}")

    def tree(self, path: str = "") -> dict[str, bytes | None]:
        found: dict[str, bytes | None] = {}
        for name in self.fs.listdir(f"{self.root}/{path}"):
            child = f"{path}/{name}"
            if self.fs.stat(self.root + child).is_dir:
                found[child] = None
                found |= self.tree(child)
            else:
                found[child] = read_file(self.fs, self.root + child)
        return found


@given(operations)
def test_memory_behaves_as_the_operating_system(sequence: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        real = Driver(OsFileSystem(), directory)
        memory = Driver(MemoryFileSystem(), "")
        for operation in sequence:
            assert memory.outcome(operation) == real.outcome(operation), operation
        assert memory.tree() == real.tree()


@given(operations, st.integers(0, 2**32))
def test_clone_crashes_as_its_original(sequence: list[tuple[Any, ...]], seed: int) -> None:
    original = Driver(MemoryFileSystem(), "")
    for operation in sequence:
        original.outcome(operation)
    assert isinstance(original.fs, MemoryFileSystem)
    twin = Driver(original.fs.clone(), "")
    assert isinstance(twin.fs, MemoryFileSystem)
    original.fs.crash(random.Random(seed))
    twin.fs.crash(random.Random(seed))
    assert twin.tree() == original.tree()


DIRECTORIES = ("/p", "/q")
slots = st.tuples(st.sampled_from(DIRECTORIES), st.sampled_from("123"))
Slot = tuple[str, str]
BODY_AT = 8  # each file starts with its number, made durable at once, so that it is known again after a crash


class CrashMachine(RuleBasedStateMachine):
    """Random use and crashes. The model keeps, for every name and file, all states since its last sync."""

    @initialize()
    def start(self) -> None:
        self.fs = MemoryFileSystem()
        for directory in DIRECTORIES:
            self.fs.makedirs(directory)
        self.fs.fsync_dir("/")
        self.count = 0
        # What each name has meant since it was last durable; the last entry is what it means now.
        self.names: dict[Slot, list[int | None]] = {
            (directory, name): [None] for directory in DIRECTORIES for name in "123"
        }
        # What each file has held since its last fsync; the last entry is what it holds now.
        self.bodies: dict[int, list[bytes]] = {}
        # Files that had a durable name and were not removed since: they must be found after any crash.
        self.safe: set[int] = set()

    def now(self, slot: Slot) -> int | None:
        return self.names[slot][-1]

    def assign(self, slot: Slot, number: int | None) -> None:
        replaced = self.now(slot)
        if replaced is not None and replaced != number:
            self.safe.discard(replaced)
        self.names[slot].append(number)

    @rule(slot=slots)
    def create(self, slot: Slot) -> None:
        if self.now(slot) is not None:
            return
        self.count += 1
        file = self.fs.open("/".join(slot), exclusive=True)
        file.pwritev([self.count.to_bytes(BODY_AT, "big")], 0)
        file.fsync()
        file.close()
        self.bodies[self.count] = [b""]
        self.assign(slot, self.count)

    @rule(slot=slots, data=st.binary(min_size=1, max_size=30), position=st.integers(0, 30))
    def write(self, slot: Slot, data: bytes, position: int) -> None:
        number = self.now(slot)
        if number is None:
            return
        file = self.fs.open("/".join(slot))
        file.pwritev([data], BODY_AT + position)
        self.bodies[number].append(file.pread(1000, BODY_AT))
        file.close()

    @rule(slot=slots, size=st.integers(0, 30))
    def truncate(self, slot: Slot, size: int) -> None:
        number = self.now(slot)
        if number is None:
            return
        file = self.fs.open("/".join(slot))
        file.truncate(BODY_AT + size)
        self.bodies[number].append(file.pread(1000, BODY_AT))
        file.close()

    @rule(slot=slots)
    def fsync(self, slot: Slot) -> None:
        number = self.now(slot)
        if number is None:
            return
        file = self.fs.open("/".join(slot))
        file.fsync()
        file.close()
        self.bodies[number] = self.bodies[number][-1:]

    @rule(slot=slots)
    def unlink(self, slot: Slot) -> None:
        if self.now(slot) is not None:
            self.fs.unlink("/".join(slot))
            self.assign(slot, None)

    @rule(old=slots, new=slots)
    def rename(self, old: Slot, new: Slot) -> None:
        number = self.now(old)
        if number is None or old == new:
            return
        self.fs.rename("/".join(old), "/".join(new))
        self.assign(new, number)
        self.names[old].append(None)

    @rule(directory=st.sampled_from(DIRECTORIES))
    def fsync_dir(self, directory: str) -> None:
        self.fs.fsync_dir(directory)
        for slot, meanings in self.names.items():
            if slot[0] == directory:
                self.names[slot] = meanings[-1:]
                if meanings[-1] is not None:
                    self.safe.add(meanings[-1])

    @precondition(lambda self: self.count > 0)
    @rule(seed=st.one_of(st.none(), st.integers(0, 2**32)), block_bytes=st.sampled_from((8, 16, 4096)))
    def crash(self, seed: int | None, block_bytes: int) -> None:
        self.fs.crash(None if seed is None else random.Random(seed), block_bytes=block_bytes)
        found: list[int] = []
        for slot, meanings in self.names.items():
            number = self.check_name(slot, meanings)
            self.names[slot] = [number]
            if number is not None:
                found.append(number)
        assert len(found) == len(set(found)), "a file has two names"
        assert self.safe <= set(found), "a durable file was lost"
        self.safe = set(found)

    def check_name(self, slot: Slot, meanings: list[int | None]) -> int | None:
        path = "/".join(slot)
        if not self.fs.exists(path):
            assert None in meanings, f"{path} was durable and is gone"
            return None
        content = read_file(self.fs, path)
        number = int.from_bytes(content[:BODY_AT], "big")
        assert number in meanings, f"{path} became a file it never was"
        self.check_body(self.bodies[number], content[BODY_AT:])
        self.bodies[number] = [content[BODY_AT:]]
        return number

    def check_body(self, versions: list[bytes], body: bytes) -> None:
        if len(versions) == 1:
            assert body == versions[0], "a synced file changed"
            return
        assert len(body) in {len(version) for version in versions}
        for index, byte in enumerate(body):
            assert byte in {version[index] if index < len(version) else 0 for version in versions}


TestCrashMachine = CrashMachine.TestCase
TestCrashMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
