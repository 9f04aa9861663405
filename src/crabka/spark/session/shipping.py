"""Sends Crabka's own code to the workers of a session, as one zip file of its sources.

A cluster or a Connect server then runs the very code of the driver, whether or not it has a copy of its own. The
libraries that the code imports (pyarrow, numba, obstore, …) are not sent: they come with the workers' Python.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from crabka.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHIPPED: Final = "spark.crabka.shipped"
_PACKAGES: Final = ("crabka", "pyspark_crabka")
# Zip files with the same content are the same bytes, whenever they are made.
_TIME: Final = (1980, 1, 1, 0, 0, 0)


def ship(session: SparkSession) -> None:
    """Send the code of this process to the workers, once per session.

    Does nothing if this process itself runs from a zip file: then the code was sent already.
    """
    path = _own_zip()
    if path is None:
        return
    session.addArtifacts(str(path), pyfile=True)
    session.conf.set(SHIPPED, "true")


def is_shipped(session: SparkSession) -> bool:
    """Whether the workers of a session have the code from `ship`."""
    return session.conf.get(SHIPPED, "false") == "true"


def is_elsewhere(session: SparkSession) -> bool:
    """Whether tasks of a session run outside of this machine's own Spark, so that they may lack the code."""
    # The runtime configuration has the master of classic sessions and of Connect servers alike.
    return _is_connect(session) or not str(session.conf.get("spark.master", "local")).startswith("local")


def write_package_zip(directory: Path) -> Path:
    """Write the sources into a directory, as a file named after their content, for `--py-files`; return its path.

    Raises ConfigError if this process itself runs from a zip file.
    """
    digest = hashlib.sha256()
    content = [(name, path.read_bytes()) for name, path in _sources()]
    for name, data in content:
        digest.update(f"{name} {len(data)}\n".encode() + data)
    target = directory / f"crabka-{digest.hexdigest()[:12]}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content:
            archive.writestr(zipfile.ZipInfo(name, _TIME), data, zipfile.ZIP_DEFLATED)
    return target


def _is_connect(session: SparkSession) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


@cache
def _own_zip() -> Path | None:
    if _root_of(_PACKAGES[0]) is None:
        return None
    directory = tempfile.mkdtemp(prefix="crabka-code-")
    # Executors that join late still ask the driver for the file.
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return write_package_zip(Path(directory))


def _sources() -> Iterator[tuple[str, Path]]:
    """Yield name in the zip file and place of each source, in a fixed order."""
    for package in _PACKAGES:
        root = _root_of(package)
        if root is None:
            raise ConfigError(f"the package {package} is not in a directory, so that its sources cannot be sent")
        for path in sorted(root.rglob("*.py")):
            yield path.relative_to(root.parent).as_posix(), path


def _root_of(package: str) -> Path | None:
    """Return the directory of a package, None if it has none."""
    found = importlib.util.find_spec(package)
    places = list(found.submodule_search_locations or ()) if found is not None else []
    return next((Path(place) for place in places if Path(place).is_dir()), None)
