"""docs/COMPATIBILITY.md: what of Kafka's protocol is served, made from the API table and the list of differences."""

from __future__ import annotations

from collections.abc import Mapping

from crabka.broker.api_table import TABLE
from crabka.broker.differences import DIFFERENCES
from crabka.broker.guards.table import GUARDS
from crabka.controller.api_table import TABLE as CONTROLLER_TABLE
from crabka.controller.guards.table import GUARDS as CONTROLLER_GUARDS
from crabka.protocol.apis import SPECS, ApiSpec
from crabka.serving.access.guard import Guards
from crabka.serving.api_table import ServedApi

_HEAD = """\
# Compatibility with Apache Kafka 4.3

This page is made from the code by `make docs`; a test keeps it current.

Formats on the wire and on disk are Kafka's. A client sees what is served in ApiVersions: an API that is not listed
there is not built, and a request for it closes the connection, as in Kafka.
"""


def compatibility_page() -> str:
    """Return the page."""
    brokers, controllers = TABLE.served, CONTROLLER_TABLE.served
    parts = [_HEAD, "## APIs that brokers serve\n", _served_table(brokers)]
    parts += ["## APIs that brokers do not serve\n", _missing_list(brokers, "on_broker")]
    parts += ["## APIs that controllers serve\n", _served_table(controllers)]
    parts += ["## APIs that controllers do not serve\n", _missing_list(controllers, "on_controller")]
    parts += [_PERMISSIONS, _permission_table(GUARDS)]
    parts += ["### Permissions at controllers\n", _permission_table(CONTROLLER_GUARDS)]
    parts += ["## Differences inside served APIs\n", _difference_table()]
    parts += ["## Defects of clients that look like defects of a broker\n", _CLIENT_DEFECTS]
    parts += ["## The Spark source beside Spark's own for Kafka\n", _SPARK]
    return "\n".join(parts)


_PERMISSIONS = """\
## Permissions that APIs need

With an authorizer (`authorizer.class.name`) each request is checked as Kafka does it; [ACLs](operations/acls.md) says
how. After the colon is what a client gets without the permission.

### Permissions at brokers
"""


def _permission_table(guards: Guards) -> str:
    lines = ["| API | permissions |", "|---|---|"]
    for key, row in sorted(guards.items()):
        lines.append(f"| {SPECS[key].name} | {'; '.join(map(str, row.checks)) or row.note} |")
    return "\n".join(lines) + "\n"


_CLIENT_DEFECTS = """\
| client | what happens, with any broker | what helps |
|---|---|---|
| librdkafka 2.15 and 2.16, and what is built on it, such as confluent-kafka (librdkafka #5511) | \
`send_offsets_to_transaction` waits without a limit after the node that coordinated the group left the cluster: the \
client notices the new coordinator only when the connection to some broker changes its state | \
`connections.max.idle.ms=4000` for the transactional producer, so that connections change their state often enough |
"""


_SPARK = """\
Rows, options, errors and checkpoints are those of Spark's Kafka source; [Spark](operations/spark.md) has the options
that are new. Spark asks Python sources for no metrics: the progress of a query has its latest offsets, but not
`minOffsetsBehindLatest`, `maxOffsetsBehindLatest` and `avgOffsetsBehindLatest`. There are no continuous queries, no
preferred locations of tasks, and no sink.
"""


def _served_table(served: Mapping[int, ServedApi]) -> str:
    lines = ["| key | API | versions here | versions in Kafka 4.3 |", "|---|---|---|---|"]
    for key, api in sorted(served.items()):
        spec = SPECS[key]
        lines.append(f"| {key} | {spec.name} | {_versions(api)} | {spec.min_version}-{spec.max_version} |")
    return "\n".join(lines) + "\n"


def _versions(api: ServedApi) -> str:
    text = f"{api.min_version}-{api.max_version}"
    if api.advertised_min_version != api.min_version:
        text += f" (advertised from {api.advertised_min_version}, as Kafka does)"
    return text


def _missing_list(served: Mapping[int, ServedApi], listener: str) -> str:
    missing = [spec for key, spec in sorted(SPECS.items()) if getattr(spec, listener) and key not in served]
    return "\n".join(f"- {_label(spec)}" for spec in missing) + "\n"


def _label(spec: ApiSpec) -> str:
    return f"{spec.name} ({int(spec.key)})"


def _difference_table() -> str:
    lines = ["| where | Kafka | here |", "|---|---|---|"]
    lines += [f"| {each.where} | {each.kafka} | {each.here} |" for each in DIFFERENCES]
    return "\n".join(lines) + "\n"
