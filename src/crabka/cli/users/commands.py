"""`crabka users`: list, add and delete users of SCRAM."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import typer

from crabka.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, CommandConfig, Execute
from crabka.cli.output import Row, print_plan_note, print_rows
from crabka.cli.session import with_admin
from crabka.cli.users.passwords import read_password
from crabka.clients.admin.admin import Admin
from crabka.clients.admin.users import StoredCredential
from crabka.errors import ConfigError, OperationError
from crabka.metadata.security import ScramKey
from crabka.protocol.error_codes import ErrorCode
from crabka.runtime.entropy import secure_random
from crabka.security.sasl.scram_credentials import SaltedCredential
from crabka.security.sasl.scram_keys import (
    MAX_STORED_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    SCRAM_SHA_512,
    salted_password,
)
from crabka.security.sasl.scram_server import SALT_BITS, scram_text
from crabka.security.secret import Secret

app = typer.Typer(help="Users of SCRAM: list, add, delete.", no_args_is_help=False)

USER_COLUMNS: Final = ("user", "mechanism", "iterations")
_NUMBERS: Final = {mechanism.name: number for number, mechanism in SCRAM_MECHANISMS.items()}

UserName = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.", show_default=False)]


@app.command("list")
def list_(
    names: Annotated[list[str] | None, typer.Argument(metavar="[USER]...", help="Users; without any, all.")] = None,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List users of SCRAM with their mechanisms; passwords are not known to the cluster."""

    async def find(admin: Admin) -> list[StoredCredential]:
        found = await admin.users.describe(names or ())
        for name in names or ():
            _require_known(name, found)
        return found

    found = with_admin(bootstrap, find, command_config=command_config)
    print_rows(USER_COLUMNS, _rows(found), as_json=as_json)


@app.command()
def add(
    name: UserName,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option("--mechanism", metavar="MECHANISM", help="SCRAM-SHA-512 (the default) or SCRAM-SHA-256."),
    ] = None,
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations",
            min=MIN_ITERATIONS,
            max=MAX_STORED_ITERATIONS,
            help="Rounds of hashing: the cost of a guess, and of each log-in for the client.",
        ),
    ] = MIN_ITERATIONS,
    password_file: Annotated[
        str | None,
        typer.Option("--password-file", metavar="FILE", help="Its only line is the password.", show_default=False),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Change the password of a user who exists.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a user of SCRAM. The password is asked for, or read from a file or from stdin."""
    _check_name(name)
    numbers = [_number_of(each) for each in mechanism or (SCRAM_SHA_512.name,)]
    password = read_password(name, password_file)
    credentials = [_salted(ScramKey(number, name), iterations, password) for number in dict.fromkeys(numbers)]

    async def change(admin: Admin) -> list[StoredCredential]:
        known = {each.mechanism for each in await admin.users.describe([name])}
        for taken in sorted(known.intersection(numbers)):
            if not replace:
                raise OperationError(
                    ErrorCode.duplicate_resource,
                    f"user {name} has a password for {_mechanism_name(taken)}; --replace changes it",
                )
        for credential in credentials:
            await admin.users.upsert(credential)
        return [StoredCredential(name, each.key.mechanism, each.iterations) for each in credentials]

    stored = with_admin(bootstrap, change, command_config=command_config)
    print_rows(USER_COLUMNS, _rows(stored), as_json=as_json)


@app.command()
def delete(
    name: UserName,
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option("--mechanism", metavar="MECHANISM", help="Only the password of a mechanism.", show_default=False),
    ] = None,
    execute: Execute = False,
    as_json: AsJson = False,
) -> None:
    """Delete a user of SCRAM. Connections that are logged in stay until they have to log in again."""
    numbers = [_number_of(each) for each in mechanism or ()]

    async def change(admin: Admin) -> list[StoredCredential]:
        known = await admin.users.describe([name])
        found = [each for each in known if not numbers or each.mechanism in numbers]
        _require_known(name, found, numbers)
        if execute:
            for each in found:
                await admin.users.delete(name, each.mechanism)
        return found

    found = with_admin(bootstrap, change, command_config=command_config)
    print_rows(USER_COLUMNS, _rows(found), as_json=as_json)
    print_plan_note(execute=execute, done=f"deleted the password of {name}", as_json=as_json)


def _require_known(name: str, found: Iterable[StoredCredential], mechanisms: Iterable[int] = ()) -> None:
    if not any(each.user == name for each in found):
        names = " or ".join(_mechanism_name(each) for each in mechanisms)
        what = f"has no password for {names}" if names else "has no password"
        raise OperationError(ErrorCode.resource_not_found, f"user {name} {what}; `crabka users list` shows all users")


def _check_name(name: str) -> None:
    """Refuse names that cannot log in, or that are most likely mistakes."""
    if not name or not name.isascii() or "\0" in name:
        raise ConfigError(f"{name or 'an empty name'}: SCRAM logs in names of ASCII characters only")
    if name.startswith("User:"):
        plain = name.removeprefix("User:")
        raise ConfigError(f"{name}: write {plain or 'NAME'}; only ACLs name users with User:")


def _number_of(text: str) -> int:
    try:
        return _NUMBERS[text.upper()]
    except KeyError:
        raise ConfigError(f"{text}: not a mechanism; there are {', '.join(_NUMBERS)}") from None


def _mechanism_name(number: int) -> str:
    known = SCRAM_MECHANISMS.get(number)
    return str(number) if known is None else known.name


def _salted(key: ScramKey, iterations: int, password: Secret) -> SaltedCredential:
    salt = scram_text(secure_random().getrandbits(SALT_BITS)).encode()
    salted = salted_password(SCRAM_MECHANISMS[key.mechanism], password, salt, iterations)
    return SaltedCredential(key, iterations, salt, salted)


def _rows(credentials: Iterable[StoredCredential]) -> list[Row]:
    return [
        {"user": each.user, "mechanism": _mechanism_name(each.mechanism), "iterations": each.iterations}
        for each in credentials
    ]
