"""The log-ins of one listener: its rules, the credentials in the metadata, and a gate for every connection."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from crabka.metadata.security import ScramKey
from crabka.security.sasl.plain_server import PLAIN, PlainServer
from crabka.security.sasl.scram_keys import SCRAM_MECHANISMS, StoredScramKeys
from crabka.security.sasl.scram_server import NONCE_BITS, ScramServer, UnknownUsers, scram_text
from crabka.security.sasl.server_login import LoginRules
from crabka.serving.logins.gate import GatedConnection, LoginGate

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from crabka.metadata.security import ScramImage
    from crabka.net.dispatch import Dispatch
    from crabka.ports import Clock
    from crabka.security.sasl.exchange import ServerExchange
    from crabka.security.sasl.listener_rules import ListenerRules
    from crabka.serving.logins.journal import LoginJournal

_UNKNOWN_USERS_BYTES: Final = 32
_MECHANISM_NUMBERS: Final = {mechanism.name: number for number, mechanism in SCRAM_MECHANISMS.items()}


class ListenerLogins:
    """Makes the gates of a listener."""

    def __init__(
        self,
        rules: ListenerRules,
        scram: Callable[[], ScramImage],
        *,
        rng: random.Random,
        clock: Clock,
        journal: LoginJournal,
    ) -> None:
        """`rng` makes nonces, so it must be cryptographic; `scram` returns the newest credentials."""
        self._rules = rules
        self._scram = scram
        self._rng = rng
        self._clock = clock
        self._journal = journal
        self._unknown = UnknownUsers(rng.randbytes(_UNKNOWN_USERS_BYTES))
        self._login_rules = LoginRules(rules.mechanisms, self._begin, rules.session_ms)

    def gate(self, connection: GatedConnection, dispatch: Dispatch) -> LoginGate:
        """Return the gate of a new connection."""
        return LoginGate(
            connection,
            dispatch,
            self._login_rules,
            clock=self._clock,
            journal=self._journal,
            max_receive_bytes=self._rules.max_receive_bytes,
            failure_delay_ms=self._rules.failure_delay_ms,
        )

    def _begin(self, mechanism: str) -> ServerExchange:
        if mechanism == PLAIN:
            return PlainServer(self._rules.plain_users)
        number = _MECHANISM_NUMBERS[mechanism]
        nonce = scram_text(self._rng.getrandbits(NONCE_BITS))
        return ScramServer(SCRAM_MECHANISMS[number], functools.partial(self._stored_keys, number), self._unknown, nonce)

    def _stored_keys(self, number: int, user: str) -> StoredScramKeys | None:
        record = self._scram().credentials.get(ScramKey(number, user))
        if record is None:
            return None
        return StoredScramKeys(record.salt, record.iterations, record.stored_key, record.server_key)
