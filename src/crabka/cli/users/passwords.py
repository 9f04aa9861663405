"""Where the password of a user comes from: a prompt, a file or stdin, never the command line, which others can read."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import BinaryIO, Final

from crabka.errors import ConfigError
from crabka.security.secret import Secret

# Longer than any password, so that a wrong file is not read whole.
_MOST_BYTES: Final = 4096


def read_password(user: str, file: str | None) -> Secret:
    """Return the password of a file, of a prompt on a terminal, or of stdin.

    Raises ConfigError, which never shows it.
    """
    if file is not None:
        try:
            with Path(file).open("rb") as opened:
                return _one_line(opened, f"the password file {file}")
        except OSError as error:
            raise ConfigError(f"cannot read the password file {file}: {error.strerror}") from error
    # Python has no stream for a descriptor that is closed.
    if sys.stdin is None:
        raise ConfigError("there is no stdin: give --password-file")
    if sys.stdin.isatty():
        return _prompted(user)
    return _one_line(sys.stdin.buffer, "the password on stdin")


def _prompted(user: str) -> Secret:
    try:
        first = Secret(getpass.getpass(f"New password of {user}: "))
        second = Secret(getpass.getpass("Once more: "))
    except EOFError:
        raise ConfigError("no password was given") from None
    if first != second:
        raise ConfigError("the passwords differ")
    if not first.reveal():
        raise ConfigError("the password is empty")
    return first


def _one_line(stream: BinaryIO, place: str) -> Secret:
    """Return the only line of a stream, without its end."""
    data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{place} is longer than {_MOST_BYTES} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        # The cause would hold the bytes.
        raise ConfigError(f"{place} is not UTF-8 text") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise ConfigError(f"{place} is empty")
    if "\n" in text or "\r" in text or "\0" in text:
        raise ConfigError(f"{place} is not a single line")
    return Secret(text)
