"""The worked examples of the pages that say how to extend the package."""

from pathlib import Path

import pytest

from tests.makers.searches import linked_cache
from tools.checks.worked_examples import EXAMPLES, QUICK, Copy, Example

ALL = [pytest.param(example, marks=() if example in QUICK else pytest.mark.slow) for example in EXAMPLES]


@pytest.mark.parametrize("example", ALL, ids=lambda example: example.__name__)
def test_it_works_as_typed(example: Example, warm_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(linked_cache(tmp_path / "cache")))
    assert example(Copy(tmp_path / "copy")) == ""
