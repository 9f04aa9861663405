"""`crabka tier`: the content of the remote tier of a cluster, and checks of it (KIP-405).

`status` and `ls` use the cluster alone; `verify` and `fsck` also read the tier; `forget` writes to the metadata topic.
All work with Apache Kafka too, because the metadata topic and the layout are those of Kafka. Exit codes of the checks:
0 clean, 1 faults, 2 could not check.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from crabka.cli.explanations import explained_text
from crabka.cli.options import (
    DEFAULT_BOOTSTRAP,
    DURATION,
    AsJson,
    Bootstrap,
    CommandConfig,
    Execute,
    as_minutes_ms,
    parse_partition,
)
from crabka.cli.output import Row, print_plan_note, print_rows
from crabka.cli.program import as_typed
from crabka.cli.session import with_cluster
from crabka.cli.tier.output import SEGMENT_COLUMNS, print_result, segment_row
from crabka.cli.tier.status import STATUS_COLUMNS, status_rows
from crabka.clients.admin.admin import Admin
from crabka.clients.cluster.cluster import Cluster
from crabka.errors import ConfigError, CrabkaError
from crabka.ids import TopicPartition
from crabka.remote.removal_notice import is_removal_notice
from crabka.remote_topic.tier_view import TierView

if TYPE_CHECKING:
    from crabka.remote.storage_manager import RemoteStorageManager
    from crabka.remote_topic.tier_check import CheckResult

app = typer.Typer(help="The remote tier: status, ls, verify, fsck, forget.", no_args_is_help=False)

COULD_NOT_CHECK = 2
# As an operator would type it; `parser` makes it milliseconds.
DEFAULT_GRACE: Final[Any] = "1h"

Topics = Annotated[
    list[str] | None, typer.Argument(metavar="[TOPIC]...", help="Topics; all if none is named.", show_default=False)
]
Places = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TOPIC[:PARTITION]]...", help="Topics; all if none is named.", show_default=False),
]
Tier = Annotated[
    str | None,
    typer.Option(
        "--tier",
        metavar="URL",
        envvar="CRABKA_TIER",
        help="file:///directory, s3://bucket/prefix?endpoint=…, gs://…, az://….",
        show_default=False,
    ),
]
ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config", metavar="FILE", help="server.properties of a broker, instead of --tier.", show_default=False
    ),
]
Grace = Annotated[
    int,
    typer.Option(
        "--grace", metavar=DURATION, parser=as_minutes_ms, help="Time that a copy or a deletion may take, such as 15m."
    ),
]


@app.command()
def status(
    topics: Topics = None,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show how much of each tiered partition is on disks, in the tier, and not copied yet."""

    async def ask(cluster: Cluster) -> list[Row]:
        view = TierView(cluster, topics or ())
        await view.read_on()
        return await status_rows(Admin(cluster), view)

    print_rows(STATUS_COLUMNS, with_cluster(bootstrap, ask, command_config=command_config), as_json=as_json)


@app.command()
def ls(
    places: Places = None,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List the segments in the tier, with their state."""
    wanted = [parse_partition(place) for place in places or ()]

    async def ask(cluster: Cluster) -> list[Row]:
        view = TierView(cluster, list(dict.fromkeys(topic for topic, _ in wanted)))
        await view.read_on()
        now_ms = cluster.runtime.clock.now_ms()
        segments = [each for each in view.history.segments.values() if not is_removal_notice(each)]
        rows = [segment_row(segment, now_ms) for segment in segments]
        return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["start"], row["end"]))

    rows = with_cluster(bootstrap, ask, command_config=command_config)
    chosen = [
        row for row in rows if not wanted or {(row["topic"], None), (row["topic"], row["partition"])} & set(wanted)
    ]
    print_rows(SEGMENT_COLUMNS, chosen, as_json=as_json)


@app.command()
def verify(
    topics: Topics = None,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    tier: Tier = None,
    config: ConfigFile = None,
    grace: Grace = DEFAULT_GRACE,
    as_json: AsJson = False,
) -> None:
    """Check that every finished segment exists with the right size, and that there are no gaps."""
    _check(bootstrap, topics, (tier, config), grace, command_config=command_config, as_json=as_json)


@app.command()
def fsck(
    topics: Topics = None,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    tier: Tier = None,
    config: ConfigFile = None,
    grace: Grace = DEFAULT_GRACE,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Number of segments that are read at a time.")] = 4,
    delete_orphans: Annotated[
        bool,
        typer.Option("--delete-orphans", help="Delete objects without metadata, after the grace period."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read the whole tier and check every batch, every index, and that the history has no gaps."""
    _check(
        bootstrap,
        topics,
        (tier, config),
        grace,
        command_config=command_config,
        read_contents=True,
        threads=threads,
        delete_orphans=delete_orphans,
        as_json=as_json,
    )


@app.command()
def forget(
    place: Annotated[
        str, typer.Argument(metavar="TOPIC:PARTITION", help="Partition of the segments.", show_default=False)
    ],
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    all_segments: Annotated[
        bool,
        typer.Option("--all", help="All segments of the partition, without comparing them with the log of its leader."),
    ] = False,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Delete segments that are not part of the leader's log: leaders keep them in case a disk lost records."""
    from crabka.cli.tier.forget import find_forgettable
    from crabka.cli.tier.forget import forget as forget_segments

    topic, partition = parse_partition(place)
    if partition is None:
        raise ConfigError(f"{place} is not a partition: TOPIC:PARTITION is needed")

    async def run(cluster: Cluster) -> list[Row]:
        view = TierView(cluster, [topic])
        await view.read_on()
        found = await find_forgettable(cluster, view, TopicPartition(topic, partition), all_segments=all_segments)
        if execute:
            await forget_segments(cluster, view, found)
        now_ms = cluster.runtime.clock.now_ms()
        return [segment_row(segment, now_ms) for segment in found]

    rows = with_cluster(bootstrap, run, command_config=command_config)
    print_rows(SEGMENT_COLUMNS, rows, as_json=as_json)
    if rows:
        print_plan_note(execute=execute, done=f"the leader deletes {len(rows)} segments", as_json=as_json)


def _check(
    bootstrap: str,
    topics: list[str] | None,
    place: tuple[str | None, str | None],
    grace_ms: int,
    *,
    command_config: str | None,
    read_contents: bool = False,
    threads: int = 1,
    delete_orphans: bool = False,
    as_json: bool,
) -> None:
    """Check, print, and exit with the code of the result."""
    # Storages and bars are slow to import; other commands need neither.
    from crabka.cli.tier.progress import TierProgress
    from crabka.cli.tier.storage import open_published_storage, open_storage
    from crabka.remote_topic.tier_check import CheckOptions, TierCheck, check_on_threads

    options = CheckOptions(grace_ms=grace_ms, delete_orphans=delete_orphans)
    storage: RemoteStorageManager | None = None
    try:
        storage = open_storage(*place)
        with TierProgress() as progress:

            async def use(cluster: Cluster) -> CheckResult:
                nonlocal storage
                if storage is None:
                    storage = await open_published_storage(Admin(cluster))
                contents = check_on_threads(storage, threads) if read_contents else None
                return await TierCheck(TierView(cluster, topics or ()), storage, options, contents).run(progress)

            result = with_cluster(bootstrap, use, command_config=command_config)
    except (CrabkaError, OSError) as error:
        print(f"crabka: could not check: {as_typed(explained_text(error))}", file=sys.stderr)
        raise typer.Exit(COULD_NOT_CHECK) from error
    finally:
        if storage is not None:
            storage.close()
    print_result(result, as_json=as_json)
    raise typer.Exit(result.exit_code)
