from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from crabka.runtime.allocator import LARGE_BYTES, return_large_memory

# The first piece makes glibc raise its limit above the size of the others, of which the one in the middle is freed: the
# heap cannot shrink there.
KEEPS_OR_RETURNS = """
import psutil, sys
from crabka.runtime.allocator import return_large_memory
if "return" in sys.argv:
    return_large_memory()
bytearray(30 << 20)
pieces = [bytearray(b"x" * (20 << 20)) for _ in range(6)]
last = pieces.pop()
before = psutil.Process().memory_info().rss
del pieces
print((before - psutil.Process().memory_info().rss) >> 20)
"""


def freed_mebibytes(*arguments: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", KEEPS_OR_RETURNS, *arguments], capture_output=True, check=True, text=True
    )
    return int(done.stdout)


@pytest.mark.skipif(not psutil.LINUX, reason="the limit is glibc's")
def test_large_memory_goes_back_when_it_is_freed() -> None:
    assert freed_mebibytes() < 50, "the C library returned it by itself: the call is not needed"
    assert freed_mebibytes("return") >= 90


def test_the_c_library_takes_the_limit() -> None:
    assert LARGE_BYTES < 32 << 20
    assert return_large_memory() in (True, False)


PAGES_OF_REQUESTS = """
import resource
from crabka.runtime.allocator import return_large_memory
return_large_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
bytearray(b"x" * (1 << 20))
before = faults()
for _ in range(200):
    bytearray(b"x" * (1 << 20))
print(faults() - before)
"""


@pytest.mark.skipif(not psutil.LINUX, reason="the limit is glibc's")
def test_the_pages_of_one_request_serve_the_next() -> None:
    done = subprocess.run([sys.executable, "-c", PAGES_OF_REQUESTS], capture_output=True, check=True, text=True)
    assert int(done.stdout) < 200 * 256 // 4
