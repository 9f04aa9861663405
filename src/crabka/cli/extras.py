"""Libraries that only some commands need: one sentence says how to install them, instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from crabka.errors import ConfigError

# Modules that an extra of pyproject.toml installs.
_SPARK: Final = frozenset(
    {"deltalake", "fastavro", "matplotlib", "numba", "numpy", "pandas", "py4j", "pyarrow", "pyiceberg", "pyspark"}
)
_CONNECT: Final = frozenset({"google", "googleapis_common_protos", "grpc", "grpc_status"})


@contextmanager
def needs_extra(command: str) -> Iterator[None]:
    """Turn a missing library of an extra into a ConfigError that names it; other missing modules are our defect."""
    try:
        yield
    except ImportError as error:
        module = (error.name or "").partition(".")[0]
        # PySpark checks for its own libraries, and raises an ImportError that has them in its text alone.
        is_of_pyspark = type(error).__module__.startswith("pyspark.")
        is_of_connect = module in _CONNECT or (is_of_pyspark and any(name in str(error) for name in _CONNECT))
        if module not in _SPARK and not is_of_pyspark and not is_of_connect:
            raise
        extra = "spark,connect" if is_of_connect else "spark"
        raise ConfigError(
            f"{command} needs libraries that are not installed: run pip install '.[{extra}]' in a checkout of Crabka "
            f"({' '.join(str(error).split())})"
        ) from error
