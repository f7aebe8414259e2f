"""Files of other tools are named, with what to give instead."""

from pathlib import Path

from advisor.catalog._user_models.formats import format_of
from advisor.core import UsageError
from tests.builders import must_fail
from tests.tables import with_cases


@with_cases
def test_the_hint_fits_the_file(tmp_path: Path, name: str, message: str, hint: str) -> None:
    (tmp_path / name).write_text("x")
    refused = must_fail(UsageError, "", format_of, tmp_path / name)
    assert message in refused.message
    assert hint in refused.hint
