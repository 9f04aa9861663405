"""Parsing of the settings that a storage gets, by declarations as those of the node's own settings.

Messages name the setting without the prefix that the node took off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crabka.config.keys import REQUIRED, ConfigKey, Value, index_keys
from crabka.errors import ConfigError


class StorageSettings:
    """Checked values of all declared settings, given or default. Raises ConfigError that names what is wrong."""

    def __init__(self, keys: Iterable[ConfigKey], given: Mapping[str, str]) -> None:
        declared = index_keys(keys)
        unknown = sorted(set(given) - set(declared))
        if unknown:
            raise ConfigError(
                f"The storage of the remote tier has no setting {unknown[0]}; it has {', '.join(declared)}"
            )
        self._values: dict[str, Value] = {name: _value(key, given.get(name)) for name, key in declared.items()}

    def text(self, name: str) -> str:
        """Return a text that is always there."""
        return str(self._values[name])

    def maybe_text(self, name: str) -> str | None:
        """Return a text, or None where it is not set or empty."""
        value = self._values[name]
        return str(value) if value else None

    def number(self, name: str) -> int:
        """Return a whole number."""
        value = self._values[name]
        assert isinstance(value, int)  # noqa: S101 - says what the declaration says, for the type checker
        return value

    def flag(self, name: str) -> bool:
        """Return whether something is switched on."""
        return self._values[name] is True

    def complete(self, *names: str) -> bool:
        """Return whether all of `names` are set. Raises ConfigError if only some are."""
        missing = [name for name in names if not self._values[name]]
        if missing and len(missing) < len(names):
            given = next(name for name in names if name not in missing)
            raise ConfigError(f"{given} of the remote tier's storage needs {missing[0]} too")
        return not missing


def _value(key: ConfigKey, text: str | None) -> Value:
    if text is not None:
        return key.parse(text)
    if key.default is REQUIRED:
        raise ConfigError(f"The storage of the remote tier needs the setting {key.name}: {key.doc}")
    return key.default_value
