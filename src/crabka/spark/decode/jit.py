"""Compiled functions whose machine code is kept on disk, wherever a worker may write.

numba keeps code beside the source or in the home directory and fails where neither can be written, as in a container
with read-only packages. Here the place is: `NUMBA_CACHE_DIR` if set, the user's cache directory, else a directory of
the user below the temporary one. Without any of them code is compiled for this process only. A lock lets the first of
many starting workers compile while the others wait for its result.

A cache only saves time, so nothing that is wrong with it may fail a worker: a crash or a full disk leaves cut and empty
files, because numba does not sync what it writes. Such files are removed and made anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import logging
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
from numba import types
from numba.core import config as numba_config
from numba.core.registry import cpu_target

logger = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any])

BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
OUTPUT_BYTES: Final = types.Array(types.uint8, 1, "C")
INT32S: Final = types.Array(types.int32, 1, "C")
INT64S: Final = types.Array(types.int64, 1, "C")
TABLE: Final = types.Array(types.int64, 2, "C")
TWO_NUMBERS: Final = types.UniTuple(types.int64, 2)  # type: ignore[no-untyped-call]
THREE_NUMBERS: Final = types.UniTuple(types.int64, 3)  # type: ignore[no-untyped-call]

_config: Final[Any] = numba_config  # its settings are made when it is loaded

# Kernels make no objects, so that their arrays need not be counted: that would be an atomic operation for every call
# of an inlined function, and six times the time.
_OPTIONS: Final[Any] = {"nogil": True, "_nrt": False}

_CACHED_ATTEMPTS: Final = 2  # with what is there, and without

_LOCK_PATIENCE_S: Final = 60.0
_LOCK_POLL_S: Final = 0.02


def compiled(result: Any, *parameters: Any) -> Callable[[Function], Function]:
    """Compile a function for one signature when its module is imported, or load what an earlier process compiled.

    One signature each: numba's cache may mix up signatures that two processes store at the same moment.
    """

    def compile_function(function: Function) -> Function:
        directory = _directory_of(function)
        with _numba_directory(directory), _compile_lock(directory):
            signature = result(*parameters)
            built = None if directory is None else _build_cached(function, signature, directory)
            return cast("Function", _build(function, signature, cache=False) if built is None else built)

    return compile_function


def _build_cached(function: Callable[..., Any], signature: Any, directory: Path) -> Any | None:
    """Compile or load one function; None if its cache files can be neither used nor replaced."""
    for _ in range(_CACHED_ATTEMPTS):
        try:
            _give_file(function, directory)
            return _build(function, signature, cache=True)
        except Exception as error:  # noqa: BLE001 - unpickling damaged bytes may raise anything
            logger.warning("machine code of %s in %s cannot be used: %r", function.__name__, directory, error)
            _remove_code(function, directory)
            if isinstance(error, OSError):
                break  # a full disk would only fail the next compilation, too
    return None


def _build(function: Callable[..., Any], signature: Any, *, cache: bool) -> Any:
    return numba.njit(signature, cache=cache, **_OPTIONS)(function)


def _remove_code(function: Callable[..., Any], directory: Path) -> None:
    """Remove the files that numba keeps for a function: an index and the code of each signature."""
    for path in directory.rglob(f"*.{function.__name__}-*.nb[ic]"):
        with contextlib.suppress(OSError):
            path.unlink()


def inlined(function: Function) -> Function:
    """Make a function part of every compiled one that calls it."""
    built: Any = numba.njit(inline="always", **_OPTIONS)(function)
    return cast("Function", built)


def called(function: Function) -> Function:
    """Make a function that compiled ones call; for what is too rare to be part of each of them."""
    built: Any = numba.njit(**_OPTIONS)(function)
    return cast("Function", built)


@functools.cache
def cache_directory() -> Path | None:
    """Return the directory for machine code, None if no place can be written."""
    given = _config.CACHE_DIR
    if given and _writable(Path(given)):
        return Path(given)
    return next((place for place in _own_places() if _private(place) and _writable(place)), None)


def _directory_of(function: Callable[..., Any]) -> Path | None:
    """The directory for the code of one function, named after the content of all that decides about it.

    numba itself compares only time and size of the function's source, which two installations may share. It keeps
    processors apart in its index, but two hosts that write that of a shared home at the same moment, without locks,
    give their code the same name.
    """
    directory = cache_directory()
    if directory is None:
        return None
    try:
        sources = [_source_of(function), _source_of(_directory_of)]
    except OSError:
        return None
    directory /= hashlib.sha256(b"".join([*sources, _platform().encode()])).hexdigest()[:16]
    return directory if _writable(directory) else None


def _platform() -> str:
    """What decides about machine code besides the sources: processor, compiler and its settings."""
    context: Any = cpu_target.target_context
    return repr((context.codegen().magic_tuple(), numba.__version__, str(_config.OPT), _config.BOUNDSCHECK))


def _source_of(function: Callable[..., Any]) -> bytes:
    """Return the source of a function's module, wherever it was loaded from. Raises OSError."""
    name = function.__code__.co_filename
    loader: Any = function.__globals__.get("__loader__")
    if os.path.exists(name) or not hasattr(loader, "get_data"):
        return Path(name).read_bytes()
    data: bytes = loader.get_data(name)
    return data


def _give_file(function: Callable[..., Any], directory: Path) -> None:
    """Let a function be one of a file beside its machine code.

    numba keeps code of functions in files only, and under their place. Code that was sent to a worker is in a zip file,
    and in another place in every application; this way it uses what any of them compiled.
    """
    path = directory / os.path.basename(function.__code__.co_filename)
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=directory) as place:
            copy = Path(place) / path.name
            copy.write_bytes(_source_of(function))
            os.replace(copy, path)
    function.__code__ = function.__code__.replace(co_filename=str(path))


def _own_places() -> Iterator[Path]:
    user_cache = os.environ.get("XDG_CACHE_HOME")
    if user_cache:
        yield Path(user_cache) / "crabka" / "numba"
    with contextlib.suppress(RuntimeError):  # a user without a home
        yield Path.home() / ".cache" / "crabka" / "numba"
    yield Path(tempfile.gettempdir()) / f"crabka-numba-{os.getuid()}"


def _private(directory: Path) -> bool:
    """Whether only we can write there: cached code is run, so no other user may plant some."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.lstat()
    except OSError:
        return False
    others_write = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not others_write


def _writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


@contextlib.contextmanager
def _numba_directory(directory: Path | None) -> Iterator[None]:
    """Make numba choose our directory now, without deciding for other users of numba in this process."""
    before = _config.CACHE_DIR
    if directory is not None:
        _config.CACHE_DIR = str(directory)
    try:
        yield
    finally:
        _config.CACHE_DIR = before


@contextlib.contextmanager
def _compile_lock(directory: Path | None) -> Iterator[None]:
    """Hold the lock of the directory; a lock that cannot be had only costs a second compilation."""
    if directory is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            file = stack.enter_context((directory / "lock").open("wb"))
            _wait_for_lock(file.fileno())
        yield


def _wait_for_lock(descriptor: int) -> None:
    deadline = time.monotonic() + _LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOCK_POLL_S)
        else:
            return
