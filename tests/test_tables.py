"""Every table of cases belongs to a test: a row that no test reads would pass unseen."""

from pathlib import Path

import pytest

from tests.tables import read_tables

TESTS = Path(__file__).parent


@pytest.mark.parametrize("file", TESTS.rglob("cases.yaml"), ids=lambda file: str(file.parent.relative_to(TESTS)))
def test_every_table_has_its_test(file: Path) -> None:
    for module, tables in read_tables(file).items():
        text = file.with_name(f"{module}.py").read_text(encoding="utf-8")
        assert [name for name in tables if f"@with_cases\ndef {name}(" not in text] == []
