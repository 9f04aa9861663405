"""A command without its libraries says which extra has them."""

from __future__ import annotations

import pytest

from crabka.cli.extras import needs_extra
from crabka.errors import ConfigError


@pytest.mark.parametrize(("module", "extra"), [("pyspark.sql", "spark"), ("numba", "spark"), ("grpc", "spark,connect")])
def test_a_missing_library_becomes_one_sentence(module: str, extra: str) -> None:
    with (
        pytest.raises(ConfigError, match=rf"crabka stats needs libraries .* pip install '.\[{extra}\]'"),
        needs_extra("crabka stats"),
    ):
        raise ModuleNotFoundError(f"No module named '{module}'", name=module)


def test_another_missing_module_is_a_defect() -> None:
    with pytest.raises(ModuleNotFoundError), needs_extra("crabka stats"):
        raise ModuleNotFoundError("No module named 'crabka.misspelt'", name="crabka.misspelt")
