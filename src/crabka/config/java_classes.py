"""Names of Java classes that stand in server.properties files, and what they mean here.

Crabka runs no Java. A class that Kafka ships and whose work Crabka does is accepted; any other one stops the start,
since ignoring it would silently change what the node does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabka.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabka.config.keys import Value

LOCAL_TIERED_STORAGE = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
TOPIC_BASED_METADATA = "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

_SIMPLE_ASSIGNOR = "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"
_ASSIGNORS = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
    _SIMPLE_ASSIGNOR: "simple",
}
_SHARE_PACKAGE = "org.apache.kafka.server.share.persister"
_OAUTH_PACKAGE = "org.apache.kafka.common.security.oauthbearer"

_KNOWN: Mapping[str, frozenset[str]] = {
    "alter.config.policy.class.name": frozenset(),
    "authorizer.class.name": frozenset({STANDARD_AUTHORIZER}),
    "client.quota.callback.class": frozenset(),
    "config.providers": frozenset(),
    "create.topic.policy.class.name": frozenset(),
    "group.consumer.assignors": frozenset({"uniform", "range", *_ASSIGNORS} - {_SIMPLE_ASSIGNOR}),
    "group.share.assignors": frozenset({"simple", *_ASSIGNORS}),
    "group.share.persister.class.name": frozenset(
        {f"{_SHARE_PACKAGE}.DefaultStatePersister", f"{_SHARE_PACKAGE}.NoOpStatePersister"}
    ),
    "kafka.metrics.reporters": frozenset(),
    "metric.reporters": frozenset({"org.apache.kafka.common.metrics.JmxReporter"}),
    "principal.builder.class": frozenset(
        {"org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"}
    ),
    "remote.log.metadata.manager.class.name": frozenset({TOPIC_BASED_METADATA}),
    "remote.log.storage.manager.class.name": frozenset({LOCAL_TIERED_STORAGE, "azure", "file", "gcs", "local", "s3"}),
    "replica.selector.class": frozenset({RACK_AWARE_SELECTOR}),
    "sasl.oauthbearer.jwt.retriever.class": frozenset({f"{_OAUTH_PACKAGE}.DefaultJwtRetriever"}),
    "sasl.oauthbearer.jwt.validator.class": frozenset({f"{_OAUTH_PACKAGE}.DefaultJwtValidator"}),
}
"""For each key that names Java classes: those that Crabka can stand in for."""

_PYTHON_CLASSES = frozenset({"authorizer.class.name", "remote.log.storage.manager.class.name"})
"""Keys that also take a user's own class as `package.module:Class`; a Java class has no colon."""


def check_java_class(name: str, value: Value) -> None:
    """Raise ConfigError when a key names a class whose work Crabka cannot do."""
    known = _KNOWN.get(name)
    if known is None:
        return
    for class_name in value if isinstance(value, tuple) else (value,):
        python_class = name in _PYTHON_CLASSES and ":" in str(class_name)
        if class_name and class_name not in known and not python_class:
            names = [*sorted(known), *(["package.module:Class"] if name in _PYTHON_CLASSES else [])]
            choice = f"known here: {', '.join(names)}" if names else "none can be used here"
            raise ConfigError(f"{name}: Crabka cannot run the Java class {class_name} ({choice})")


def assignor_name(text: str) -> str:
    """Return the short name of a group assignor that was given by name or by class."""
    return _ASSIGNORS.get(text, text)
