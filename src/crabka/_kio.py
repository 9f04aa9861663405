"""The one door to the schema library `kio`, at the bottom of the import order.

kio registers strategies for its primitive types as soon as it can import `hypothesis`. A node never draws random
messages, yet on a machine with test tools the import costs 0.4 s of start-up and 20 MB. So kio's first module is
imported while `hypothesis` cannot be found; kio then leaves the registration out for good. A process that has
`hypothesis` loaded already (a test run) has paid for it, and nothing is hidden from it.

A module that needs kio imports `crabka.errors` or `crabka.protocol` first; both come through here.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def hidden_module(name: str) -> Iterator[None]:
    """Make `import name` fail inside the block, unless the module is loaded already."""
    if name in sys.modules:
        yield
        return
    # None in sys.modules is Python's own way to say "this import fails".
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


with hidden_module("hypothesis"):
    importlib.import_module("kio.static._phantom")

from kio.schema.errors import ErrorCode  # noqa: E402 - must follow the guarded import above

__all__ = ["ErrorCode", "hidden_module"]
