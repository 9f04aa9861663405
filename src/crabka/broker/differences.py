"""Where this node differs from Apache Kafka 4.3 inside APIs that it serves: data for docs/COMPATIBILITY.md.

An entry belongs here when a client can notice the difference. What is not served at all needs no entry: it is
missing from the API table.
"""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """One difference: where it shows, what Kafka does, what happens here."""

    where: str
    kafka: str
    here: str


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "Produce",
        "decompresses and walks the records of every batch",
        "checks header, length and CRC; walks the records only for compacted topics, for a `compression.type` other "
        "than `producer` and with `crabka.validate.records=true`",
    ),
    Difference(
        "Produce of batches that decompress to much",
        "decompresses batches of any size",
        "refuses more than 16 times `max.message.bytes`, or more records than an uncompressed batch could have, with "
        "MESSAGE_TOO_LARGE; lists at most 1,000 refused records of a batch",
    ),
    Difference(
        "ListOffsets by timestamp",
        "opens stored batches of any size",
        "answers MESSAGE_TOO_LARGE if it has to open one of more than 64 MiB, or than 16 times `max.message.bytes` if "
        "that is larger",
    ),
    Difference(
        "`queued.max.request.bytes`",
        "-1 sets no limit",
        "-1 stands for 256 MiB; a request waits for memory without stopping smaller ones, and half-sent ones lose "
        "their connection while others wait",
    ),
    Difference(
        "FindCoordinator for a share group",
        "names the coordinator",
        "COORDINATOR_NOT_AVAILABLE: there is none",
    ),
    Difference(
        "FindCoordinator when `__consumer_offsets` or `__transaction_state` does not exist",
        "begins to create it and answers COORDINATOR_NOT_AVAILABLE",
        "creates it and answers with the coordinator",
    ),
    Difference(
        "Share and streams groups found in a directory of Kafka",
        "are run",
        "are kept and listed with their type",
    ),
    Difference(
        "ConsumerGroupHeartbeat with a pattern that is new to its group",
        "matches it against the topics in the background and reports them in a later answer",
        "matches it at once",
    ),
    Difference(
        "The assignor `uniform` when members subscribe to different topics",
        "balances by an algorithm of its own",
        "balances as well and keeps what members have, but may choose other partitions",
    ),
    Difference(
        "JoinGroup or SyncGroup sent again while the first waits",
        "leaves the first without an answer",
        "answers the first with REBALANCE_IN_PROGRESS",
    ),
    Difference(
        "Topics with `cleanup.policy=compact`",
        "cleans `log.cleaner.threads` logs at once",
        "cleans one log at a time",
    ),
    Difference(
        "`remote.storage.enable=true` for `__remote_log_metadata`",
        "is taken and has no effect",
        "INVALID_CONFIG, as for every topic of the cluster itself",
    ),
    Difference(
        "DescribeConfigs of a broker",
        "hides all settings of the remote storage, as it hides whatever it does not know",
        "shows where the tier is (`rsm.config.dir`, `bucket`, `prefix` and the like), so that readers find it",
    ),
    Difference(
        "the quota `connection_creation_rate`",
        "slows down new connections of an address",
        "is stored and shown, not enforced; a warning says so at start",
    ),
    Difference(
        "fetch above `consumer_byte_rate`",
        "answered at once without records, which are not counted",
        "answered with its records, which are counted; in both, the connection is not read for `throttle_time_ms`",
    ),
    Difference(
        "CreateAcls, DeleteAcls or DescribeAcls with a code that is not known",
        "closes the connection",
        "INVALID_REQUEST for that ACL or filter; DescribeAcls selects nothing",
    ),
    Difference(
        "A question about a group or transactional id whose name begins with a character before `*`, such as `!`",
        "may search the ACLs without an end, or fail",
        "is decided by the ACLs",
    ),
    Difference(
        "DescribeUserScramCredentials of all users without the permission",
        "gives no answer",
        "CLUSTER_AUTHORIZATION_FAILED",
    ),
    Difference(
        "ConsumerGroupHeartbeat with a pattern, where the member may not describe all topics that match",
        "assigns the topics that it may describe",
        "is refused with TOPIC_AUTHORIZATION_FAILED unless the member may describe every topic of the cluster that "
        "the pattern could match: DESCRIBE on the topic `*`",
    ),
    Difference(
        "A topic that Metadata creates, and AlterConfigs, at a broker with an authorizer",
        "asks the controller in the name of the client",
        "checks the client at the broker and asks in the name of the broker, which must be a super user",
    ),
    Difference(
        "SCRAM for a user who does not exist",
        "refuses the first message",
        "asks for a proof and refuses that, as for a wrong password",
    ),
    Difference(
        "A request other than a token in the middle of a SASL log-in",
        "answers with an error and closes the connection",
        "closes the connection",
    ),
    Difference(
        "Keystores and truststores",
        "JKS, PKCS12 and PEM",
        "PEM alone; a file that changes is read again, and a bad one leaves the last good one in force",
    ),
    Difference(
        "`ssl.cipher.suites`",
        "chooses ciphers",
        "stops the start: OpenSSL chooses",
    ),
    Difference(
        "`allow.everyone.if.no.acl.found`",
        "takes every word but `true` for false",
        "is `true` or `false`; any other word stops the start",
    ),
    Difference(
        "Settings of TLS and SASL through AlterConfigs",
        "many can change while a broker runs",
        "INVALID_REQUEST: they change in the file of the node, with a restart",
    ),
    Difference(
        "ListOffsets by timestamp after compaction",
        "may stop at an empty segment and answer -1 though newer records exist",
        "goes on to the next segment",
    ),
    Difference(
        "UpdateFeatures",
        "can lower metadata.version where no records of the higher level are in use",
        "metadata.version is never lowered",
    ),
    Difference(
        "AlterPartitionReassignments while another reassignment is under way",
        "keeps the replicas to add or to remove of the first one where the second has none of them",
        "ends with exactly the replicas that were asked for last, and can still be cancelled",
    ),
    Difference(
        "A batch, index, snapshot, checkpoint, `meta.properties` or `quorum-state` that the disk changed",
        "serves what is there; a lost `.txnindex` shows aborted records",
        "finds and repairs it (internals/healing.md); what no copy has is answered with CORRUPT_MESSAGE",
    ),
    Difference(
        "A change of the ISR to take in a replica whose log dir is reported as lost",
        "takes it",
        "INELIGIBLE_REPLICA",
    ),
    Difference(
        "A request that is forwarded to the controller while none is active",
        "answers with an error of the request when the time is up",
        "closes the connection when the time is up",
    ),
    Difference(
        "A broker whose process ended",
        "is fenced when `broker.session.timeout.ms` is over",
        "is fenced at once if its port refuses connections (`crabka.fast.failure.detection.enable`)",
    ),
)
