"""PEM in a property (KIP-651), as a file while it is loaded: the functions of OpenSSL accept only files."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from crabka.clients.security.settings import PemFile
from crabka.vfs import passing_file

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_WIDTH: Final = 64


@contextmanager
def pem_text_file(key: str, text: str) -> Iterator[PemFile]:
    """Yield a file with the PEM of a property, which only this process can read; it is removed afterwards."""
    with passing_file(pem_lines(text).encode()) as path:
        yield PemFile(key, path, in_property=True)


def pem_lines(text: str) -> str:
    """Return the blocks of a text in lines for OpenSSL: in properties, line ends may have become blanks."""
    return "".join(
        f"-----BEGIN {kind}-----\n{_lines(body)}\n-----END {kind}-----\n" for kind, body in _BLOCK.findall(text)
    )


def _lines(body: str) -> str:
    # Old encrypted keys begin with header lines, which need their line ends.
    return body.strip() if ":" in body else "\n".join(textwrap.wrap("".join(body.split()), _WIDTH))
