"""A node of ours with protected listeners, beside one without protection for the tests themselves."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.support.nodes.crabka_up import CrabkaProcess
from tests.support.wire.certificates import Authority
from tests.support.wire.ports import free_port

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SCRAM_NUMBERS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
MODULES = "org.apache.kafka.common.security"
SESSION_MS = 2_000
# Names of listeners and their protocols; BRIEF ends sessions.
LISTENERS = {"SASL_PLAINTEXT": "SASL_PLAINTEXT", "BRIEF": "SASL_PLAINTEXT"}
# MUTUAL wants certificates of clients.
TLS_LISTENERS = {"SSL": "SSL", "MUTUAL": "SSL", "SASL_SSL": "SASL_SSL"}


class SecuredNode(CrabkaProcess):
    """One node with one user."""

    def __init__(self, directory: Path, user: str, password: str, authority: Authority | None = None) -> None:
        """Prepare the node; the user can log in with each mechanism. With an authority it has listeners with TLS."""
        super().__init__(directory)
        self.user, self.password = user, password
        self.port = free_port()
        secured = LISTENERS if authority is None else LISTENERS | TLS_LISTENERS
        self.ports = {name: free_port() for name in secured}
        listeners = {"PLAINTEXT": self.port, "CONTROLLER": 0, **self.ports}
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **secured}
        plain = f'{MODULES}.plain.PlainLoginModule required user_{user}="{password}";'
        self.settings = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{value}" for name, value in protocols.items()),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "connection.failed.authentication.delay.ms": "1",
            "listener.name.brief.connections.max.reauth.ms": str(SESSION_MS),
            **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": plain for name in self.ports},
        }

        if authority is not None:
            self.keystore = authority.keystore(authority.issue("broker", names="IP:127.0.0.1"))
            self.settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.keystore),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(authority.certificate),
                "listener.name.mutual.ssl.client.auth": "required",
            }

    def address(self, listener: str) -> str:
        """`host:port` of a listener."""
        return f"127.0.0.1:{self.ports[listener]}"

    def wait_ready(self) -> None:
        """Wait until the node serves clients and knows its user."""
        super().wait_ready()
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        for number in SCRAM_NUMBERS.values():
            stored = UserScramCredentialUpsertion(self.user, ScramCredentialInfo(number, 4096), self.password.encode())
            admin.alter_user_scram_credentials([stored])[self.user].result(120)
