"""Files of other tools are named, with what to give instead."""

from pathlib import Path

import pytest

from advisor.catalog._user_models.formats import format_of
from advisor.core import UsageError
from tests.tables import with_cases


@with_cases
def test_the_hint_fits_the_file(tmp_path: Path, name: str, message: str, hint: str) -> None:
    (tmp_path / name).write_text("x")
    with pytest.raises(UsageError) as refused:
        format_of(tmp_path / name)
    assert message in refused.value.message
    assert hint in refused.value.hint
