"""`crabka doctor`: looks for what is wrong or about to go wrong, and says which command mends it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from crabka.cli.doctor.examination import Examination, Request, examine_cluster, examine_data_dir
from crabka.cli.doctor.gathering.overview import is_refusal
from crabka.cli.doctor.gathering.tables import LakeTables
from crabka.cli.doctor.report import print_report
from crabka.cli.explanations import explained_text
from crabka.cli.lake.options import DEFAULT_FORMAT, TopicPlace
from crabka.cli.options import DEFAULT_BOOTSTRAP, DURATION, AsJson, Bootstrap, CommandConfig, as_duration_ms
from crabka.cli.program import as_typed
from crabka.errors import ConfigError, CrabkaError

PROBLEMS = 1
CANNOT_EXAMINE = 2
DEFAULT_TIMEOUT = "30s"
_ELSEWHERE = "where a node should run, `crabka doctor --data-dir DIR` examines its directory"
_REQUIRED = "the doctor needs DESCRIBE and DESCRIBE_CONFIGS on the cluster"


def doctor(
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    data_dir: Annotated[
        str | None,
        typer.Option(
            "--data-dir",
            metavar="DIR",
            help="Examine the directory of a node that does not start, instead of a cluster.",
            show_default=False,
        ),
    ] = None,
    tier: Annotated[
        str | None,
        typer.Option(
            "--tier",
            metavar="URL",
            envvar="CRABKA_TIER",
            help="Address of the tier, if the cluster does not publish it.",
            show_default=False,
        ),
    ] = None,
    lake: Annotated[
        str | None,
        typer.Option("--lake", metavar="URL", envvar="CRABKA_LAKE", help="Place of tables.", show_default=False),
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", help="A table to check; may be repeated.", show_default=False)
    ] = None,
    table_format: Annotated[str, typer.Option("--table-format", help="delta, iceberg or parquet.")] = DEFAULT_FORMAT,
    timeout: Annotated[
        int, typer.Option("--timeout", parser=as_duration_ms, metavar=DURATION, help="Time for all checks together.")
    ] = DEFAULT_TIMEOUT,  # type: ignore[assignment]  # typer parses the default
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors and warnings only.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look for problems of a cluster or a directory, each with the command that mends it.

    Nothing is changed. Works with Apache Kafka, too. Exit codes: 0 no problems, 1 errors or warnings, 2 no broker
    answers.
    """
    if data_dir == "":
        raise ConfigError("--data-dir is empty")
    if timeout <= 0:
        raise ConfigError("--timeout must be more than 0")
    if table and lake is None:
        raise ConfigError("--table needs --lake URL")
    if data_dir is not None:
        _finish(examine_data_dir(data_dir), (), as_json=as_json, quiet=quiet)
    place = TopicPlace(bootstrap=bootstrap, command_config=command_config, tier=tier)
    request = Request(
        bootstrap=bootstrap,
        command_config=command_config,
        timeout_ms=timeout,
        tier_url=tier,
        tables=LakeTables(lake, table or (), table_format),
        source_options=place.source_options(),
    )
    try:
        found = examine_cluster(request)
    except ConfigError:
        raise
    except (CrabkaError, OSError) as error:
        elsewhere = _REQUIRED if is_refusal(error) else _ELSEWHERE
        text = f"{explained_text(error)}; {elsewhere}"
        print(f"crabka: {as_typed(text)}", file=sys.stderr)
        raise typer.Exit(CANNOT_EXAMINE) from error
    _finish(found, _cluster_options(bootstrap, command_config), as_json=as_json, quiet=quiet)


def _finish(found: Examination, cluster_options: tuple[str, ...], *, as_json: bool, quiet: bool) -> None:
    print_report(found, as_json=as_json, quiet=quiet, cluster_options=cluster_options)
    raise typer.Exit(0 if found.is_healthy else PROBLEMS)


def _cluster_options(bootstrap: str, command_config: str | None) -> tuple[str, ...]:
    """Return the options with which another command reaches the same cluster."""
    options = () if bootstrap == DEFAULT_BOOTSTRAP else ("-b", bootstrap)
    return options if command_config is None else (*options, "--command-config", command_config)
