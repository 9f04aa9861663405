"""Entry point of `crabka`: finds the command and turns errors into one line and an exit code.

`up` and `serve` must start nodes quickly: they parse their own arguments. Typer takes a tenth of a second to import
and is loaded only for the other commands. Exit codes: 0 done, 1 failed, 2 bad input.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from crabka.cli.extras import needs_extra
from crabka.cli.program import as_typed, note_typed
from crabka.errors import ConfigError, CrabkaError

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
# Shells report 128 + the number of the signal that ended a command.
EXIT_INTERRUPTED = 130

# Set by the scripts of `crabka completion` when a shell asks for the words that may follow.
COMPLETION_VARIABLE = "_CRABKA_COMPLETE"

_NODE_COMMANDS = {"up": "crabka.cli.node.up", "serve": "crabka.cli.node.serve"}


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    note_typed(sys.argv)
    sys.exit(execute(sys.argv[1:] if arguments is None else arguments))


def execute(arguments: Sequence[str]) -> int:
    """Run a command; return its exit code. Errors become one line on stderr."""
    try:
        with needs_extra(f"crabka {arguments[0]}" if arguments else "crabka"):
            if arguments and arguments[0] in _NODE_COMMANDS and COMPLETION_VARIABLE not in os.environ:
                code = importlib.import_module(_NODE_COMMANDS[arguments[0]]).main(arguments[1:])
            else:
                code = importlib.import_module("crabka.cli.app").main(arguments or ("--help",))
    except ConfigError as error:
        return _report(error, EXIT_BAD_INPUT)
    except BrokenPipeError:
        # The reader closed the pipe, as in `crabka records tail … | head`. Nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except (CrabkaError, OSError) as error:
        return _report(error, EXIT_FAILED)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return int(code)


def _report(error: Exception, code: int) -> int:
    # Loads the codes of the protocol, which `up` needs anyway.
    from crabka.cli.explanations import explained_text

    print(f"crabka: {as_typed(explained_text(error))}", file=sys.stderr)
    return code
