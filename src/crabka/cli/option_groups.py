"""Options that several commands share, declared once as fields of a dataclass. A command takes it as one parameter.

Typer reads the options of a command from the signature of its function. `with_option_groups` gives it one in which the
fields of a dataclass replace the parameter of that type.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter
from typing import Any, get_type_hints


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose groups of options are options of its own. Names must be unique."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if is_dataclass(parameter.annotation)
    }
    parameters = [
        option
        for name, parameter in signature.parameters.items()
        for option in (_options_of(groups[name]) if name in groups else [parameter])
    ]

    @wraps(command)
    def call(*arguments: Any, **options: Any) -> None:
        for name, group in groups.items():
            options[name] = group(**{field.name: options.pop(field.name) for field in fields(group)})
        command(*arguments, **options)

    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # a function may have one
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _options_of(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
