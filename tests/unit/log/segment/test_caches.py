from __future__ import annotations

from crabka.log.segment.caches import Handle, LruCache
from crabka.testing import MemoryFile, MemoryFileSystem


class CountingFile(MemoryFile):
    closed = 0

    def close(self) -> None:
        type(self).closed += 1
        super().close()


def test_the_least_recently_used_value_goes() -> None:
    cache: LruCache[str] = LruCache(2)
    loads: list[str] = []

    def load(path: str) -> str:
        loads.append(path)
        return path.upper()

    assert [cache.get(path, load) for path in ("a", "b", "a", "c", "a", "b")] == ["A", "B", "A", "C", "A", "B"]
    assert loads == ["a", "b", "c", "b"]
    assert len(cache) == 2


def test_what_is_found_counts_as_used() -> None:
    cache: LruCache[int] = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert (cache.find("a"), cache.find("c")) == (1, None)
    cache.put("c", 3)
    assert (cache.find("a"), cache.find("b"), cache.find("c")) == (1, None, 3)


def test_a_forgotten_value_is_loaded_again() -> None:
    cache: LruCache[object] = LruCache(2)
    cache.put("a", 1)
    cache.forget("a")
    cache.forget("never there")
    assert cache.get("a", lambda _path: 2) == 2


def test_a_file_stays_open_until_its_last_reference_is_gone() -> None:
    fs = MemoryFileSystem()
    node = fs.open("/log", create=True)._node
    CountingFile.closed = 0
    cache: LruCache[Handle] = LruCache(1)
    plan = cache.get("/log", lambda path: Handle(CountingFile(fs, path, node, read_only=True)))
    cache.put("/other", Handle(fs.open("/log")))
    assert CountingFile.closed == 0
    assert plan.file.size() == 0
    del plan
    assert CountingFile.closed == 1


def test_all_values_can_be_dropped() -> None:
    cache: LruCache[str] = LruCache(3)
    cache.put("a", "A")
    cache.clear()
    assert (len(cache), cache.find("a")) == (0, None)
