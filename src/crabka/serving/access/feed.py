"""Which authorizer a node has, and how it learns of ACLs: all of them at the start, then every change."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from crabka.config.java_classes import STANDARD_AUTHORIZER
from crabka.errors import ConfigError, CrabkaError
from crabka.security.acl_records import acl_of, acls_of
from crabka.security.authorizer import Authorizer
from crabka.security.standard_authorizer import StandardAuthorizer

if TYPE_CHECKING:
    from crabka.config.server import ServerConfig
    from crabka.metadata.delta import MetadataChanges
    from crabka.metadata.image import MetadataImage
    from crabka.quorum.raft.quorum import RaftQuorum

_KEY: Final = "authorizer.class.name"
_METHODS: Final = ("allows", "allows_any", "explain", "load", "change")


def make_authorizer(config: ServerConfig) -> Authorizer | None:
    """Make the authorizer that the settings name; None without one. Raises ConfigError."""
    name = config.authorizer_class_name
    if not name:
        return None
    if name == STANDARD_AUTHORIZER:
        return StandardAuthorizer(config.static)
    made = _made(name, config)
    missing = [method for method in _METHODS if not callable(getattr(made, method, None))]
    if missing:
        raise ConfigError(f"{_KEY}: {name} is no Authorizer: it has no {', '.join(missing)}")
    return made  # type: ignore[no-any-return] # it has the methods of the port


def _made(name: str, config: ServerConfig) -> Any:
    module_name, _, class_name = name.partition(":")
    try:
        maker = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{_KEY}: {name} cannot be imported: {error}") from error
    try:
        return maker(config.static)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"{_KEY}: {name} cannot be made: {type(error).__name__}: {error}") from error


class AclFeed:
    """Gives an authorizer the ACLs of the metadata, in the order of the log."""

    def __init__(self, authorizer: Authorizer, quorum: RaftQuorum) -> None:
        self._authorizer = authorizer
        self._quorum = quorum
        self._is_loaded = False
        quorum.subscribe(self._on_metadata)

    async def load(self) -> None:
        """Wait until the metadata is caught up with, then load all ACLs; changes follow by themselves."""
        await self._quorum.wait_caught_up()
        if not self._is_loaded:
            self._is_loaded = True
            self._authorizer.load(acls_of(self._quorum.image.acls.entries))

    async def load_when_possible(self) -> None:
        """Load; a node whose quorum fails has other worries than its ACLs."""
        try:
            await self.load()
        except CrabkaError:
            # The owner of the quorum reports it.
            return

    def _on_metadata(self, delta: MetadataChanges, image: MetadataImage) -> None:
        changed = delta.acls_changed
        if not self._is_loaded or not changed:
            return
        entries = image.acls.entries
        added = {acl_id: acl_of(entries[acl_id]) for acl_id in changed if acl_id in entries}
        self._authorizer.change(added, [acl_id for acl_id in changed if acl_id not in entries])
