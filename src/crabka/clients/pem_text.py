"""PEM that stands in a property (KIP-651), as a file while it is loaded: the functions of OpenSSL take nothing else."""

from __future__ import annotations

import os
import re
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from crabka.clients.security_settings import PemFile

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_WIDTH: Final = 64


@contextmanager
def pem_text_file(key: str, text: str) -> Iterator[PemFile]:
    """Yield a file with the PEM of a property, which only this process can read and which is gone afterwards.

    On Linux it is in memory, so that a private key never gets to a disk.
    """
    content = pem_lines(text).encode()
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pem")
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(content)
            yield PemFile(key, f"/proc/self/fd/{descriptor}", in_property=True)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield PemFile(key, file.name, in_property=True)


def pem_lines(text: str) -> str:
    """Return the blocks of a text in lines as OpenSSL wants them: in properties line ends may have become blanks."""
    return "".join(
        f"-----BEGIN {kind}-----\n{_lines(body)}\n-----END {kind}-----\n" for kind, body in _BLOCK.findall(text)
    )


def _lines(body: str) -> str:
    # Old encrypted keys begin with lines of their own, which cannot be told from the rest without line ends.
    return body.strip() if ":" in body else "\n".join(textwrap.wrap("".join(body.split()), _WIDTH))
