"""Where compiled code is kept: in private places that can be written, by many processes at once, or nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numba
import pytest
from numba import types
from numba.core.registry import cpu_target

from crabka.spark.decode import jit

ADDER = """
import sys
from numba import types
from crabka.spark.decode.jit import INT64S, compiled
@compiled(types.int64, INT64S)
def total(numbers):
    result = 0
    for number in numbers:
        result += number
    return result
import numpy
print(total(numpy.arange(5)), sum(total.stats.cache_hits.values()), sum(total.stats.cache_misses.values()))
"""


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose only cache is below the test's directory, for this process and for its children."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(jit._config, "CACHE_DIR", "")
    return tmp_path


find = jit.cache_directory.__wrapped__


def test_the_cache_of_the_user_comes_first(own_cache: Path) -> None:
    assert find() == own_cache / "cache/crabka/numba"
    assert (own_cache / "cache/crabka/numba").stat().st_mode & 0o777 == 0o700


def test_the_directory_given_to_numba_is_taken(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit._config, "CACHE_DIR", str(own_cache / "given"))
    assert find() == own_cache / "given"


def test_unwritable_places_are_passed_over(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = own_cache / "blocker"
    blocker.write_text("a file where a directory should be")
    monkeypatch.setattr(jit._config, "CACHE_DIR", str(blocker / "given"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocker))
    assert find() == own_cache / "home/.cache/crabka/numba"
    monkeypatch.setenv("HOME", str(blocker))
    assert find() == own_cache / f"tmp/crabka-numba-{os.getuid()}"
    monkeypatch.setattr(tempfile, "tempdir", str(blocker))
    assert find() is None


def test_a_place_that_others_can_write_is_not_trusted(own_cache: Path) -> None:
    planted = own_cache / "cache/crabka/numba"
    planted.mkdir(parents=True)
    planted.chmod(0o777)
    assert find() == own_cache / "home/.cache/crabka/numba"


def test_a_link_is_not_trusted(own_cache: Path) -> None:
    (own_cache / "elsewhere").mkdir(mode=0o700)
    (own_cache / "cache/crabka").mkdir(parents=True)
    (own_cache / "cache/crabka/numba").symlink_to(own_cache / "elsewhere")
    assert find() == own_cache / "home/.cache/crabka/numba"


def adder(directory: Path) -> subprocess.Popen[str]:
    script = directory / "adder.py"
    if not script.exists():
        script.write_text(ADDER)
    return subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer(process: subprocess.Popen[str]) -> list[str]:
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output.split()


def test_of_many_processes_one_compiles_and_all_get_the_code(own_cache: Path) -> None:
    answers = [answer(process) for process in [adder(own_cache) for _ in range(3)]]
    assert [value for value, _, _ in answers] == ["10"] * 3
    assert sorted((hits, misses) for _, hits, misses in answers) == [("0", "1"), *[("1", "0")] * 2]


def test_code_runs_where_nothing_can_be_written(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = own_cache / "blocker"
    blocker.write_text("")
    script = own_cache / "adder.py"
    script.write_text(f"import tempfile\ntempfile.tempdir = {str(blocker)!r}\n{ADDER}")
    for variable in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(variable, str(blocker))
    assert answer(adder(own_cache))[:2] == ["10", "0"]


def damage(own_cache: Path, suffix: str, kept: int) -> None:
    (path,) = (own_cache / "cache/crabka/numba").rglob(f"*.total-*.{suffix}")
    path.write_bytes(path.read_bytes()[:kept])


@pytest.mark.parametrize(("suffix", "kept"), [("nbi", 0), ("nbi", 40), ("nbc", 0), ("nbc", 1_000)])
def test_files_that_a_crash_has_cut_are_made_anew(own_cache: Path, suffix: str, kept: int) -> None:
    assert answer(adder(own_cache)) == ["10", "0", "1"]
    damage(own_cache, suffix, kept)
    assert answer(adder(own_cache)) == ["10", "0", "1"]
    assert answer(adder(own_cache)) == ["10", "1", "0"]


def test_only_the_files_of_the_damaged_function_are_removed(own_cache: Path) -> None:
    names = ("a.total-1.py.nbi", "a.total-1.py.1.nbc", "a.total_of-1.py.nbi", "a.subtotal-1.py.1.nbc", "a.py", "lock")
    (own_cache / "deeper").mkdir()
    for name in names:
        (own_cache / "deeper" / name).touch()

    def total() -> None: ...

    jit._remove_code(total, own_cache)
    assert {path.name for path in (own_cache / "deeper").iterdir()} == set(names[2:])


@pytest.mark.parametrize("space", [0, 4_000])
def test_code_runs_where_the_disk_is_full(own_cache: Path, space: int) -> None:
    """Files that may not grow fail as those of a full disk do: the source does not fit, or the code does not."""
    script = own_cache / "adder.py"
    script.write_text(f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({space}, {space}))\n{ADDER}")
    assert answer(adder(own_cache))[:2] == ["10", "0"]
    left = [path.name for path in (own_cache / "cache").rglob("*") if path.is_file()]
    assert set(left) <= {"lock", "adder.py"}


def test_an_error_of_the_function_is_not_taken_for_one_of_the_cache(own_cache: Path) -> None:
    script = own_cache / "adder.py"
    script.write_text(ADDER.replace("result += number", "result += missing"))
    process = adder(own_cache)
    assert "missing" in process.communicate()[1]
    assert process.returncode == 1


def place_of(function: Any) -> Path:
    place = jit._directory_of(function)
    assert place is not None
    return place


def test_the_place_depends_on_processor_compiler_and_settings(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "cache_directory", find)
    places = [place_of(place_of)]
    assert place_of(place_of) == places[0]
    codegen = cpu_target.target_context.codegen()
    for features in ("+avx512f", "-avx512f"):
        monkeypatch.setattr(codegen, "magic_tuple", lambda features=features: ("x86_64", "generic", features))
        places.append(place_of(place_of))
    for owner, name, value in (
        (jit._config, "BOUNDSCHECK", 1),
        (jit._config, "OPT", 0),
        (numba, "__version__", "1"),
    ):
        monkeypatch.setattr(owner, name, value)
        places.append(place_of(place_of))
    assert len(set(places)) == len(places) == 6


def test_the_place_depends_on_the_content_of_the_source(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "cache_directory", find)
    places = []
    for text in ("def f():\n    return 1\n", "def f():\n    return 2\n"):
        source = own_cache / "source.py"
        source.write_text(text)
        scope: dict[str, Any] = {}
        exec(compile(text, str(source), "exec"), scope)  # noqa: S102 - our own text
        places.append(jit._directory_of(scope["f"]))
    assert None not in places
    assert places[0] != places[1]


def test_a_source_that_cannot_be_read_is_not_cached(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "cache_directory", find)
    scope: dict[str, Any] = {}
    exec(compile("def f():\n    return 7\n", "<nowhere>", "exec"), scope)  # noqa: S102 - our own text
    assert jit._directory_of(scope["f"]) is None
    assert jit.compiled(types.int64)(scope["f"])() == 7


def test_the_setting_of_numba_is_put_back(own_cache: Path) -> None:
    with jit._numba_directory(own_cache):
        assert str(own_cache) == jit._config.CACHE_DIR
    assert jit._config.CACHE_DIR == ""


def test_a_lock_that_is_never_given_up_is_not_waited_for_forever(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit, "_LOCK_PATIENCE_S", 0.0)
    with jit._compile_lock(own_cache), jit._compile_lock(own_cache):
        assert (own_cache / "lock").exists()
    with jit._compile_lock(own_cache):
        pass


def test_code_that_was_sent_in_a_zip_file_uses_what_others_compiled(own_cache: Path) -> None:
    def run(place: Path) -> str:
        code = f"import sys; sys.path.insert(0, {str(place)!r}); import adder"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    (own_cache / "adder.py").write_text(ADDER)
    for name in ("one.zip", "two.zip"):
        with zipfile.ZipFile(own_cache / name, "w") as archive:
            archive.writestr("adder.py", ADDER)
    assert run(own_cache / "one.zip") == "10 0 1"
    assert run(own_cache / "two.zip") == "10 1 0"
    assert run(own_cache) == "10 1 0"
