"""Examples in the help of each command, by the words of the command.

They are parsed by a test against the options of the command. Nothing is imported here: `up` and `serve` start without
typer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# In the order of the help of `crabka`; without the name of the program.
EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "up": (
        "up",
        "up --data-dir /var/lib/crabka --listen 127.0.0.1:9092",
        "up --tier ./cold --set log.retention.ms=7d",
    ),
    "serve": (
        "serve --config server.properties",
        "serve --config server.properties --override log.retention.bytes=1GB",
    ),
    "format": (
        "format --config server.properties --standalone",
        "format --config server.properties --no-initial-controllers \\\n    --cluster-id 4L6g3nShT-eMCtK--X86sw",
    ),
    "random-uuid": ("random-uuid",),
    "doctor": (
        "doctor",
        "doctor -b broker:9092 --timeout 1m --json",
        "doctor --lake s3://bucket/lake --table orders",
        "doctor --data-dir /var/lib/crabka",
    ),
    "topics list": ("topics list", "topics list --internal --json"),
    "topics create": ("topics create orders -p 6 -c retention.ms=7d -c segment.bytes=64MiB",),
    "topics describe": ("topics describe orders payments",),
    "topics delete": ("topics delete orders", "topics delete orders --execute"),
    "topics alter": ("topics alter orders --partitions 12",),
    "records produce": (
        "records produce orders hello world",
        "records produce orders --key-separator : --codec zstd < lines.txt",
    ),
    "records consume": (
        "records consume orders --from 2026-01-31T12:00:00 --count 10",
        "records consume orders:0 --from +1000 --json",
    ),
    "records tail": ("records tail orders --values",),
    "records delete-before": (
        "records delete-before orders:0:1000",
        "records delete-before orders:0:1000 --execute",
    ),
    "offsets get": ("offsets get orders", "offsets get orders:0 --at 2026-01-31T12:00:00"),
    "groups list": ("groups list --state Stable",),
    "groups describe": ("groups describe billing",),
    "groups reset": (
        "groups reset billing --topic orders --to-earliest",
        "groups reset billing --topic orders:0,2 --shift -100 --execute",
    ),
    "groups delete": ("groups delete billing", "groups delete billing --execute"),
    "groups delete-offsets": ("groups delete-offsets billing --topic orders --execute",),
    "configs describe": (
        "configs describe topic orders --all",
        "configs describe broker 1 --docs",
    ),
    "configs alter": (
        "configs alter topic orders --set retention.ms=7d --delete flush.ms",
        "configs alter broker --delete log.cleaner.threads",
    ),
    "transactions list": ("transactions list", "transactions list --hanging --max-timeout 15m"),
    "transactions abort": (
        "transactions abort payments-7 --execute",
        "transactions abort --partition orders:0 --start-offset 42 --execute",
    ),
    "acls list": ("acls list", "acls list --topic orders --matching"),
    "acls add": (
        "acls add --allow User:alice --producer --topic orders",
        "acls add --allow User:bob --consumer --topic orders --group billing",
        "acls add --deny User:eve --operation All --topic pay --prefix",
    ),
    "acls remove": (
        "acls remove --allow User:alice --producer --topic orders",
        "acls remove --topic orders --execute",
    ),
    "acls explain": ("acls explain --principal User:alice -o Write --topic orders",),
    "users list": ("users list", "users list alice bob --json"),
    "users add": (
        "users add alice",
        "users add alice --password-file alice.txt --replace",
        "users add bob --mechanism SCRAM-SHA-256 --iterations 8192",
    ),
    "users delete": ("users delete alice", "users delete alice --mechanism SCRAM-SHA-256 --execute"),
    "quotas list": ("quotas list", "quotas list --user alice"),
    "quotas set": (
        "quotas set producer_byte_rate=10MB --user alice",
        "quotas set request_percentage=50 --user-default --client-id reports",
    ),
    "quotas remove": (
        "quotas remove producer_byte_rate --user alice",
        "quotas remove --user-default --client-id reports --execute",
    ),
    "brokers list": ("brokers list",),
    "brokers unregister": ("brokers unregister 3",),
    "partitions reassign": (
        "partitions reassign --topics orders --brokers 1,2,3",
        "partitions reassign --topics orders --brokers 1,2,3 --wait --execute",
        "partitions reassign --topic orders --replicas 3,1 --throttle 20MB",
        "partitions reassign --list",
    ),
    "partitions elect-leaders": (
        "partitions elect-leaders",
        "partitions elect-leaders --topic orders:0 --unclean --execute",
    ),
    "log-dirs list": ("log-dirs list --broker 1",),
    "log-dirs move": ("log-dirs move orders-0 --to /disk2/crabka --wait",),
    "log-dirs cordon": ("log-dirs cordon /disk1/crabka --broker 1",),
    "log-dirs uncordon": ("log-dirs uncordon /disk1/crabka --broker 1",),
    "log-dirs check": ("log-dirs check --now", "log-dirs check --dir /disk1/crabka"),
    "log-dirs balance": ("log-dirs balance", "log-dirs balance --drain --execute --wait"),
    "quorum describe": ("quorum describe", "quorum describe --replication"),
    "quorum add": ("quorum add --config controller.properties",),
    "quorum remove": ("quorum remove --controller-id 3 --directory-id 4L6g3nShT-eMCtK--X86sw",),
    "quorum repair": ("quorum repair --data-dir ./crabka-data", "quorum repair --data-dir ./crabka-data --execute"),
    "cluster demo": ("cluster demo --nodes 3", "cluster demo --data-dir ./three --tier ./cold"),
    "cluster start-node": ("cluster start-node 2",),
    "cluster status": ("cluster status",),
    "cluster stop": ("cluster stop",),
    "tier status": ("tier status orders",),
    "tier ls": ("tier ls orders:0",),
    "tier verify": ("tier verify orders", "tier verify --tier file:///var/lib/cold --grace 15m"),
    "tier fsck": (
        "tier fsck --tier file:///var/lib/cold --threads 8",
        "tier fsck --tier file:///var/lib/cold --delete-orphans --grace 1d",
    ),
    "tier forget": ("tier forget orders:0", "tier forget orders:0 --execute"),
    "lake sync": (
        "lake sync orders --to ./lake --value json",
        "lake sync --pattern 'shop-.*' --to s3://bucket/lake -f --interval 5m",
    ),
    "lake status": ("lake status orders --to ./lake",),
    "lake rewind": ("lake rewind orders --to ./lake", "lake rewind orders --to ./lake --execute"),
    "lake compact": ("lake compact orders --to ./lake --target-size 256MiB",),
    "lake vacuum": ("lake vacuum orders --to ./lake --grace 7d",),
    "audit": ("audit orders --tier file:///var/lib/cold",),
    "recover": (
        "recover --tier s3://bucket/cold --dry-run",
        "recover --tier s3://bucket/cold --data-dir ./recovered",
    ),
    "replay": ("replay orders --to orders-again --rate 1000",),
    "stats": ("stats orders --plot orders.png",),
    "completion": (
        'eval "$(crabka completion bash)"',
        "completion zsh > ~/.zfunc/_crabka",
        "completion fish > ~/.config/fish/completions/crabka.fish",
    ),
}


def examples_of(command: str) -> tuple[str, ...]:
    """Return the examples of a command as they are typed; none for a group of commands."""
    return tuple(each if each.startswith("eval ") else f"crabka {each}" for each in EXAMPLES.get(command, ()))


def examples_text(command: str) -> str:
    """Return the section of a help text; empty for a group of commands."""
    lines = "\n".join(examples_of(command)).replace("\n", "\n  ")
    return f"Examples:\n  {lines}" if lines else ""
