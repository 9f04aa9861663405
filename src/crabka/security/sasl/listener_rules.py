"""What the settings of a listener say about log-ins: `sasl.enabled.mechanisms` and a JAAS entry for each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from crabka.errors import ConfigError
from crabka.security.jaas import KEY as JAAS_KEY
from crabka.security.jaas import LoginEntry, parse_jaas
from crabka.security.sasl.plain_server import PLAIN
from crabka.security.sasl.scram_keys import SCRAM_MECHANISMS
from crabka.security.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabka.config.listener_settings import ListenerSettings

MECHANISMS_KEY: Final = "sasl.enabled.mechanisms"
SERVED_MECHANISMS: Final = (PLAIN, *(mechanism.name for mechanism in SCRAM_MECHANISMS.values()))
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_USER_OPTION: Final = "user_"
# A session that is longer does not end in practice; durations in answers have a limit.
_MAX_SESSION_MS: Final = 2**52


@dataclass(frozen=True, slots=True)
class ListenerRules:
    """The parsed settings of a SASL listener."""

    mechanisms: tuple[str, ...]
    plain_users: Mapping[str, Secret]
    session_ms: Mapping[str, int]
    failure_delay_ms: int
    max_receive_bytes: int


def listener_rules(settings: ListenerSettings) -> ListenerRules:
    """Read the settings of a listener whose security protocol has SASL. Raises ConfigError, which shows no secret."""
    mechanisms = cast("tuple[str, ...]", settings.value(MECHANISMS_KEY))
    for mechanism in mechanisms:
        if mechanism not in SERVED_MECHANISMS:
            served = ", ".join(SERVED_MECHANISMS)
            raise ConfigError(
                f"{settings.place_of(MECHANISMS_KEY)}: {mechanism} of listener {settings.name} is not supported,"
                f" set it to one or more of {served}"
            )
    if not mechanisms:
        raise ConfigError(f"{settings.place_of(MECHANISMS_KEY)}: listener {settings.name} needs a mechanism")
    for mechanism in mechanisms:
        # Credentials of SCRAM are in the metadata, but an entry of another module is a mistake.
        login_entry(settings, mechanism)
    return ListenerRules(
        mechanisms=mechanisms,
        plain_users=_plain_users(settings) if PLAIN in mechanisms else {},
        session_ms={mechanism: _session_ms(settings, mechanism) for mechanism in mechanisms},
        failure_delay_ms=cast("int", settings.value("connection.failed.authentication.delay.ms")),
        max_receive_bytes=cast("int", settings.value("sasl.server.max.receive.size")),
    )


def login_entry(settings: ListenerSettings, mechanism: str) -> LoginEntry | None:
    """Return the JAAS entry of a mechanism. As in Kafka, it must be given for the mechanism. Raises ConfigError."""
    text = settings.own.get(f"{mechanism.lower()}.{JAAS_KEY}")
    if text is None:
        if settings.value(JAAS_KEY) is not None:
            place, wanted = settings.place_of(JAAS_KEY), jaas_key(settings, mechanism)
            raise ConfigError(f"{place}: its key must name the listener and the mechanism, such as {wanted}")
        return None
    entry_key = jaas_key(settings, mechanism)
    try:
        entry = parse_jaas(text)
    except ConfigError as error:
        raise ConfigError(str(error).replace(JAAS_KEY, entry_key, 1)) from None
    module = PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE
    if entry.module != module:
        raise ConfigError(f"{entry_key}: {mechanism} needs the login module {module}")
    return entry


def jaas_key(settings: ListenerSettings, mechanism: str) -> str:
    """Return the key of the JAAS entry of a mechanism at a listener."""
    return f"{settings.prefix}{mechanism.lower()}.{JAAS_KEY}"


def _plain_users(settings: ListenerSettings) -> dict[str, Secret]:
    entry = login_entry(settings, PLAIN)
    if entry is None:
        raise ConfigError(
            f"{jaas_key(settings, PLAIN)}: not set, though {PLAIN} is enabled; set it to"
            f' {PLAIN_MODULE} required user_NAME="PASSWORD";'
        )
    return {
        name.removeprefix(_USER_OPTION): Secret(password)
        for name, password in entry.options.items()
        if name.startswith(_USER_OPTION)
    }


def _session_ms(settings: ListenerSettings, mechanism: str) -> int:
    return min(cast("int", settings.value("connections.max.reauth.ms", mechanism)), _MAX_SESSION_MS)
