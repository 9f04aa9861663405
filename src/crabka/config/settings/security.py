"""Settings of authentication, encryption and authorisation.

Some ask for what Crabka does not do. They are known so that a node can refuse to start where one is set, instead of
running without the protection that its operator asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.config.keys import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    SHORT,
    STRING,
    ConfigKey,
    ConfigType,
    Scope,
    Value,
)
from crabka.config.validators import Between, OneOf, at_least

if TYPE_CHECKING:
    from crabka.config.keys import Validator


def _security_key(
    name: str,
    kind: ConfigType,
    *,
    default: Value = None,
    validator: Validator | None = None,
    scope: Scope = "read-only",
    doc: str = "",
) -> ConfigKey:
    """Declare a setting; one without a text has no effect."""
    idle = "a choice of Java's TLS" if name.startswith("ssl.") else "a part of SASL that Crabka lacks"
    return ConfigKey(
        name, kind, default, doc or f"Belongs to {idle}.", validator, scope=scope, effect="full" if doc else "none"
    )


TLS_KEYS = (
    _security_key("ssl.allow.dn.changes", BOOLEAN, default=False),
    _security_key("ssl.allow.san.changes", BOOLEAN, default=False),
    _security_key("ssl.cipher.suites", LIST, default=(), scope=PER_BROKER),
    _security_key(
        "ssl.client.auth",
        STRING,
        default="none",
        validator=OneOf(("required", "requested", "none")),
        scope=PER_BROKER,
        doc="Whether clients show certificates. At SASL_SSL only the setting of the listener itself counts.",
    ),
    _security_key(
        "ssl.enabled.protocols", LIST, default=("TLSv1.2", "TLSv1.3"), scope=PER_BROKER, doc="The versions of TLS."
    ),
    _security_key(
        "ssl.endpoint.identification.algorithm",
        STRING,
        default="https",
        scope=PER_BROKER,
        doc="Whether certificates of other nodes must match their host names; empty: no.",
    ),
    _security_key("ssl.engine.factory.class", CLASS, scope=PER_BROKER),
    _security_key("ssl.key.password", PASSWORD, scope=PER_BROKER, doc="Opens an encrypted key."),
    _security_key("ssl.keymanager.algorithm", STRING, default="SunX509", scope=PER_BROKER),
    _security_key(
        "ssl.keystore.certificate.chain", PASSWORD, scope=PER_BROKER, doc="The certificates of this node as PEM."
    ),
    _security_key("ssl.keystore.key", PASSWORD, scope=PER_BROKER, doc="The key of this node as PEM."),
    _security_key(
        "ssl.keystore.location",
        STRING,
        scope=PER_BROKER,
        doc="The file with certificates and key of this node. It is read again when it changes.",
    ),
    _security_key("ssl.keystore.password", PASSWORD, scope=PER_BROKER),
    _security_key(
        "ssl.keystore.type",
        STRING,
        default="JKS",
        scope=PER_BROKER,
        doc="The type of the file: PEM is served, the default is not.",
    ),
    _security_key(
        "ssl.principal.mapping.rules",
        STRING,
        default="DEFAULT",
        doc="What the subject of a certificate is called as a user.",
    ),
    _security_key("ssl.protocol", STRING, default="TLSv1.3", scope=PER_BROKER),
    _security_key("ssl.provider", STRING, scope=PER_BROKER),
    _security_key("ssl.secure.random.implementation", STRING, scope=PER_BROKER),
    _security_key("ssl.trustmanager.algorithm", STRING, default="PKIX", scope=PER_BROKER),
    _security_key("ssl.truststore.certificates", PASSWORD, scope=PER_BROKER, doc="Trusted certificates as PEM."),
    _security_key(
        "ssl.truststore.location",
        STRING,
        scope=PER_BROKER,
        doc="The file with trusted certificates. It is read again when it changes.",
    ),
    _security_key("ssl.truststore.password", PASSWORD, scope=PER_BROKER),
    _security_key(
        "ssl.truststore.type",
        STRING,
        default="JKS",
        scope=PER_BROKER,
        doc="The type of the file: PEM is served, the default is not.",
    ),
)

SASL_KEYS = (
    _security_key("sasl.client.callback.handler.class", CLASS),
    _security_key(
        "sasl.enabled.mechanisms",
        LIST,
        default=("GSSAPI",),
        scope=PER_BROKER,
        doc="The mechanisms of SASL listeners. PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 are served, the default is not.",
    ),
    _security_key(
        "sasl.jaas.config",
        PASSWORD,
        scope=PER_BROKER,
        doc="The users of PLAIN, and the user of this node at others. The key must name listener and mechanism: "
        "`listener.name.<name>.<mechanism>.sasl.jaas.config`.",
    ),
    _security_key("sasl.kerberos.kinit.cmd", STRING, default="/usr/bin/kinit", scope=PER_BROKER),
    _security_key("sasl.kerberos.min.time.before.relogin", LONG, default=60_000, scope=PER_BROKER),
    _security_key("sasl.kerberos.principal.to.local.rules", LIST, default=("DEFAULT",), scope=PER_BROKER),
    _security_key("sasl.kerberos.service.name", STRING, scope=PER_BROKER),
    _security_key("sasl.kerberos.ticket.renew.jitter", DOUBLE, default=0.05, scope=PER_BROKER),
    _security_key("sasl.kerberos.ticket.renew.window.factor", DOUBLE, default=0.8, scope=PER_BROKER),
    _security_key("sasl.login.callback.handler.class", CLASS),
    _security_key("sasl.login.class", CLASS),
    _security_key("sasl.login.connect.timeout.ms", INT),
    _security_key("sasl.login.read.timeout.ms", INT),
    _security_key("sasl.login.refresh.buffer.seconds", SHORT, default=300, scope=PER_BROKER),
    _security_key("sasl.login.refresh.min.period.seconds", SHORT, default=60, scope=PER_BROKER),
    _security_key("sasl.login.refresh.window.factor", DOUBLE, default=0.8, scope=PER_BROKER),
    _security_key("sasl.login.refresh.window.jitter", DOUBLE, default=0.05, scope=PER_BROKER),
    _security_key("sasl.login.retry.backoff.max.ms", LONG, default=10_000),
    _security_key("sasl.login.retry.backoff.ms", LONG, default=100),
    _security_key(
        "sasl.mechanism.controller.protocol",
        STRING,
        default="GSSAPI",
        doc="The mechanism by which this node logs in at controllers; the default is not supported.",
    ),
    _security_key(
        "sasl.mechanism.inter.broker.protocol",
        STRING,
        default="GSSAPI",
        scope=PER_BROKER,
        doc="The mechanism by which this node logs in at other brokers; the default is not supported.",
    ),
    _security_key(
        "sasl.oauthbearer.assertion.algorithm",
        STRING,
        default="RS256",
        validator=OneOf(("ES256", "RS256"), ignore_case=True),
    ),
    _security_key("sasl.oauthbearer.assertion.claim.aud", STRING),
    _security_key("sasl.oauthbearer.assertion.claim.exp.seconds", INT, default=300, validator=Between(0, 86_400)),
    _security_key("sasl.oauthbearer.assertion.claim.iss", STRING),
    _security_key("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, default=False),
    _security_key("sasl.oauthbearer.assertion.claim.nbf.seconds", INT, default=60, validator=Between(0, 3_600)),
    _security_key("sasl.oauthbearer.assertion.claim.sub", STRING),
    _security_key("sasl.oauthbearer.assertion.file", STRING),
    _security_key("sasl.oauthbearer.assertion.private.key.file", STRING),
    _security_key("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD),
    _security_key("sasl.oauthbearer.assertion.template.file", STRING),
    _security_key("sasl.oauthbearer.client.credentials.client.id", STRING),
    _security_key("sasl.oauthbearer.client.credentials.client.secret", PASSWORD),
    _security_key("sasl.oauthbearer.clock.skew.seconds", INT, default=30),
    _security_key("sasl.oauthbearer.expected.audience", LIST, default=()),
    _security_key("sasl.oauthbearer.expected.issuer", STRING),
    _security_key("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, default=3_600_000),
    _security_key("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, default=10_000),
    _security_key("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, default=100),
    _security_key("sasl.oauthbearer.jwks.endpoint.url", STRING),
    _security_key(
        "sasl.oauthbearer.jwt.retriever.class",
        CLASS,
        default="org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    ),
    _security_key(
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        default="org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    ),
    _security_key("sasl.oauthbearer.scope", STRING),
    _security_key("sasl.oauthbearer.scope.claim.name", STRING, default="scope"),
    _security_key("sasl.oauthbearer.sub.claim.name", STRING, default="sub"),
    _security_key("sasl.oauthbearer.token.endpoint.url", STRING),
    _security_key("sasl.server.callback.handler.class", CLASS),
    _security_key(
        "sasl.server.max.receive.size",
        INT,
        default=524_288,
        doc="The largest frame in bytes of a client that has not logged in.",
    ),
)


SECURITY_KEYS = (
    ConfigKey(
        "authorizer.class.name",
        STRING,
        "",
        "What decides what a client may do: Kafka's StandardAuthorizer by its Java name, whose decisions and settings "
        "(super.users, allow.everyone.if.no.acl.found) Crabka has, or a class of your own as package.module:Class. "
        "Empty: everything is allowed.",
    ),
    ConfigKey(
        "principal.builder.class",
        CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "The Java class that names the user of a connection.",
        scope=PER_BROKER,
        effect="none",
    ),
    ConfigKey("security.providers", STRING, None, "Java classes that supply cryptography.", effect="none"),
    ConfigKey(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        "How long an answer to a failed login is held back.",
        at_least(0),
    ),
    ConfigKey("connections.max.reauth.ms", LONG, 0, "How long a login lasts (KIP-368); 0 means for ever."),
    ConfigKey(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        3_600_000,
        "How often expired delegation tokens are looked for.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "delegation.token.expiry.time.ms",
        LONG,
        86_400_000,
        "How long a delegation token lasts unless renewed.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "delegation.token.max.lifetime.ms",
        LONG,
        604_800_000,
        "How long a delegation token lasts at most.",
        at_least(1),
        effect="none",
    ),
    ConfigKey(
        "delegation.token.secret.key",
        PASSWORD,
        None,
        "The secret with which delegation tokens are signed.",
        effect="none",
    ),
    *TLS_KEYS,
    *SASL_KEYS,
)

# What only an authorizer reads, as in Kafka, where its class declares them.
AUTHORIZER_KEYS = frozenset({"super.users", "allow.everyone.if.no.acl.found"})

_REFUSED_NAMES = frozenset(
    {
        *("delegation.token.secret.key", "security.providers"),
        # Java classes that take part in log-ins.
        *("sasl.client.callback.handler.class", "sasl.login.callback.handler.class"),
        *("sasl.login.class", "sasl.server.callback.handler.class", "ssl.engine.factory.class"),
    }
)


def asks_for_security(name: str, text: str) -> bool:
    """Return whether a setting asks for protection that Crabka does not give.

    The same keys below `listener.name.<listener>.` count too. An empty value asks for nothing.
    """
    return bool(text) and _base_name(name) in _REFUSED_NAMES


def is_fixed(name: str) -> bool:
    """Return whether a setting of TLS or SASL cannot change while the node runs, though it can in Kafka."""
    return _base_name(name).startswith(("ssl.", "sasl."))


def _base_name(name: str) -> str:
    """Return a key without a listener and a SASL mechanism before it."""
    if not name.startswith("listener.name."):
        return name
    rest = name.split(".", 3)[-1]
    mechanism, _, key = rest.partition(".")
    return rest if mechanism in ("ssl", "sasl") else key if key.startswith("sasl.") else rest
