"""Apache Kafka with every kind of protected listener, as what the clients have to get along with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.kafka.oracle import JvmKafka
from tests.support.nodes.process import accepts_connections
from tests.support.wire.certificates import Authority
from tests.support.wire.ports import free_port

USER = "alice"
PASSWORD = "pass;w0rd=="
SESSION_MS = 2_000
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# Names of listeners and their protocols. MUTUAL wants certificates of clients, STALE has one itself whose time is over,
# and BRIEF ends sessions.
LISTENERS = {
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "STALE": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "BRIEF": "SASL_PLAINTEXT",
}
_MODULES = "org.apache.kafka.common.security"


class SecuredKafka(JvmKafka):
    """One node whose certificate is for 127.0.0.1 alone, and whose only user is `USER`."""

    start_timeout_s = 120.0

    def __init__(self, directory: Path, authority: Authority) -> None:
        """Prepare the node; it shows a certificate of the authority and trusts its clients."""
        super().__init__(directory)
        self.ports = {name: free_port() for name in LISTENERS}
        own = authority.issue("broker", names="IP:127.0.0.1")
        stale = authority.issue("stale", expired=True)
        addresses = [f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()]
        plain = f"PLAINTEXT://127.0.0.1:{self.port}"
        controller = f"CONTROLLER://127.0.0.1:{self._controller_port}"
        protocols = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT", **LISTENERS}
        self.settings = {
            "listeners": ",".join([plain, controller, *addresses]),
            "advertised.listeners": ",".join([plain, *addresses]),
            "listener.security.protocol.map": ",".join(f"{name}:{value}" for name, value in protocols.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.keystore(own)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.certificate),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.stale.ssl.keystore.type": "PEM",
            "listener.name.stale.ssl.keystore.location": str(authority.keystore(stale)),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            # Tests of refusals need no slow ones.
            "connection.failed.authentication.delay.ms": "1",
            "listener.name.brief.connections.max.reauth.ms": str(SESSION_MS),
            **_logins(),
        }

    def address(self, listener: str) -> str:
        """`host:port` of a listener."""
        return f"127.0.0.1:{self.ports[listener]}"

    def _format_options(self) -> Sequence[str]:
        scrams = MECHANISMS[1:]
        return [f"--add-scram={name}=[name={USER},password={PASSWORD}]" for name in scrams]

    def _is_ready(self) -> bool:
        return all(accepts_connections(port) for port in (self.port, *self.ports.values()))


def _logins() -> dict[str, str]:
    """The JAAS entries of the broker: users of PLAIN stand in them, those of SCRAM in the metadata."""
    logins = {}
    for listener, protocol in LISTENERS.items():
        if protocol.startswith("SASL"):
            prefix = f"listener.name.{listener.lower()}"
            plain = f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
            logins[f"{prefix}.plain.sasl.jaas.config"] = plain
            for mechanism in MECHANISMS[1:]:
                scram = f"{_MODULES}.scram.ScramLoginModule required;"
                logins[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = scram
    return logins
