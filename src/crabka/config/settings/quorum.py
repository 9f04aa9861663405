"""The node's identity and its place in the metadata quorum (KRaft)."""

from __future__ import annotations

from crabka.config.keys import INT, LIST, LONG, REQUIRED, STRING, ConfigKey, boolean
from crabka.config.validators import ADDRESSES, VOTERS, ListOf, at_least

QUORUM_KEYS = (
    ConfigKey(
        "process.roles",
        LIST,
        REQUIRED,
        "What the node does: `broker`, `controller` or both.",
        ListOf(("broker", "controller"), may_be_empty=False),
    ),
    ConfigKey("node.id", INT, REQUIRED, "The number of the node, unique in the cluster.", at_least(0)),
    ConfigKey("broker.id", INT, -1, "The older name of `node.id`."),
    ConfigKey(
        "broker.rack",
        STRING,
        None,
        "The place of the broker, for replica placement and for fetching from a near replica.",
    ),
    ConfigKey(
        "controller.listener.names",
        LIST,
        REQUIRED,
        "The listeners that controllers use.",
        ListOf(may_be_empty=False),
    ),
    ConfigKey(
        "controller.quorum.voters",
        LIST,
        (),
        "A fixed quorum as id@host:port, separated by commas; empty for a dynamic quorum.",
        VOTERS,
    ),
    ConfigKey(
        "controller.quorum.bootstrap.servers",
        LIST,
        (),
        "Where the quorum is found, as host:port, separated by commas.",
        ADDRESSES,
    ),
    boolean(
        "controller.quorum.auto.join.enable",
        "Whether a new controller asks to join the quorum by itself.",
        default=False,
    ),
    ConfigKey(
        "controller.quorum.election.timeout.ms",
        INT,
        1_000,
        "How long a node waits for votes before the next election.",
        at_least(0),
    ),
    ConfigKey(
        "controller.quorum.election.backoff.max.ms",
        INT,
        1_000,
        "The longest pause between two elections.",
        at_least(0),
    ),
    ConfigKey(
        "controller.quorum.fetch.timeout.ms",
        INT,
        2_000,
        "How long a leader may be silent before an election starts.",
        at_least(0),
    ),
    ConfigKey(
        "controller.quorum.request.timeout.ms",
        INT,
        2_000,
        "How long a request within the quorum may take.",
        at_least(0),
    ),
    ConfigKey(
        "controller.quorum.retry.backoff.ms",
        INT,
        20,
        "The pause before a request within the quorum is tried again.",
        at_least(0),
    ),
    ConfigKey(
        "controller.quorum.fetch.max.bytes",
        INT,
        1_048_576,
        "The most bytes of one fetch of the metadata log.",
        at_least(1),
    ),
    ConfigKey(
        "controller.quorum.fetch.snapshot.max.bytes",
        INT,
        1_048_576,
        "The most bytes of one fetch of a snapshot.",
        at_least(1),
    ),
    ConfigKey("controller.socket.timeout.ms", INT, 30_000, "How long a request to a controller may take."),
    ConfigKey(
        "metadata.log.dir",
        STRING,
        None,
        "The directory of the metadata log; the first of `log.dirs` where this is not set.",
    ),
    ConfigKey(
        "metadata.log.segment.bytes",
        INT,
        1_073_741_824,
        "The size at which a segment of the metadata log is closed.",
        at_least(8_388_608),
    ),
    ConfigKey(
        "internal.metadata.log.segment.bytes",
        INT,
        None,
        "For tests: a smaller segment size of the metadata log.",
        internal=True,
    ),
    ConfigKey(
        "metadata.log.segment.ms", LONG, 604_800_000, "The age at which a segment of the metadata log is closed."
    ),
    ConfigKey(
        "metadata.log.max.record.bytes.between.snapshots",
        LONG,
        20_971_520,
        "After this many bytes of records a snapshot is written.",
        at_least(1),
    ),
    ConfigKey(
        "metadata.log.max.snapshot.interval.ms",
        LONG,
        3_600_000,
        "After this time a snapshot is written if there was any change; 0 turns it off.",
        at_least(0),
    ),
    ConfigKey(
        "metadata.max.idle.interval.ms",
        INT,
        500,
        "How often an idle leader writes a record that changes nothing; 0 turns it off.",
        at_least(0),
    ),
    ConfigKey(
        "metadata.max.retention.bytes",
        LONG,
        104_857_600,
        "The size of log and snapshots above which old ones are removed.",
    ),
    ConfigKey(
        "metadata.max.retention.ms",
        LONG,
        604_800_000,
        "The age at which old metadata segments and snapshots are removed.",
    ),
    ConfigKey("broker.heartbeat.interval.ms", INT, 2_000, "How often a broker reports to the controller."),
    ConfigKey("broker.session.timeout.ms", INT, 9_000, "How long a silent broker counts as alive."),
    ConfigKey(
        "initial.broker.registration.timeout.ms",
        INT,
        60_000,
        "How long a broker may take to register at its start.",
    ),
    boolean(
        "controlled.shutdown.enable",
        "Whether a stopping broker first hands over what it leads.",
        default=True,
    ),
)
