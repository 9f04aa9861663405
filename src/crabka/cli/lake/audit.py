"""`crabka audit`: scrub a tier with Spark. Exit codes: 0 clean, 1 faults, 2 could not check."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from crabka.cli.explanations import explained_text
from crabka.cli.lake.options import Master, TierUrl
from crabka.cli.options import AsJson, CommandConfig
from crabka.cli.program import as_typed
from crabka.cli.session import cluster_settings, with_admin
from crabka.cli.tier.commands import DEFAULT_GRACE, Grace
from crabka.cli.tier.output import print_result
from crabka.errors import ConfigError, CrabkaError

COULD_NOT_CHECK = 2


def audit(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC]...", help="Topics; all if none is named.", show_default=False)
    ] = None,
    *,
    tier: TierUrl = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            "-b",
            help="Use the metadata of this cluster, and the tier that it publishes; without it the objects alone.",
            show_default=False,
        ),
    ] = None,
    command_config: CommandConfig = None,
    grace: Grace = DEFAULT_GRACE,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Read the whole tier in parallel and check every object, batch and index, and the history."""
    # Spark takes seconds to import; other commands do not need it.
    from crabka.cli.tier.progress import TierProgress
    from crabka.spark.jobs.audit import AuditOptions, audit_tier
    from crabka.spark.session.job_session import job_session

    try:
        options = AuditOptions(
            tier_uri=_address(tier, bootstrap, command_config),
            bootstrap=bootstrap,
            cluster_settings=cluster_settings(command_config),
            topics=tuple(topics or ()),
            grace_ms=grace,
        )
        with job_session("crabka audit", master) as spark, TierProgress() as progress:
            result = audit_tier(spark, options, progress)
    except (CrabkaError, OSError) as error:
        print(f"crabka: could not check: {as_typed(explained_text(error))}", file=sys.stderr)
        raise typer.Exit(COULD_NOT_CHECK) from error
    print_result(result, as_json=as_json)
    raise typer.Exit(result.exit_code)


def _address(tier: str | None, bootstrap: str | None, command_config: str | None) -> str:
    """Return the address of the tier that is named, or published by the cluster. Raises ConfigError."""
    from crabka.cli.tier.storage import published_tier

    if tier is not None:
        return tier if "://" in tier else str(Path(tier).resolve())
    if bootstrap is None:
        raise ConfigError("name the tier by --tier URL, or the cluster that has it by --bootstrap HOST:PORT")
    return with_admin(bootstrap, published_tier, command_config=command_config)
