"""Tables of cases in ``cases.yaml`` of a folder of tests: by module, by test, and each row by argument."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

Test = TypeVar("Test", bound=Callable[..., None])
Rows = Sequence[Mapping[str, Any]]


@cache
def read_tables(file: Path) -> Mapping[str, Mapping[str, Rows]]:
    """Return the rows of a file by module and test."""
    tables: Mapping[str, Mapping[str, Rows]] = load_yaml(file)
    return tables


def with_cases(test: Test) -> Test:
    """Run a test for each of its rows in ``cases.yaml`` beside its module; ``case`` is the name of a row."""
    module = Path(test.__code__.co_filename)
    rows = read_tables(module.with_name("cases.yaml"))[module.stem][test.__name__]
    names = tuple(name for name in rows[0] if name != "case")
    values = [pytest.param(*(row[name] for name in names), id=row.get("case")) for row in rows]
    decorated: Test = pytest.mark.parametrize(names, values)(test)
    return decorated


def read_table(test: str, name: str) -> Any:
    """Return the content of a YAML file beside a test (its ``__file__``)."""
    return load_yaml(Path(test).with_name(name))


def load_yaml(file: Path) -> Any:
    """Return the content of a YAML file, which the parser in C reads ten times as fast."""
    return yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
