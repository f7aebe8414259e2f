"""The worked examples of the pages that say how to extend the package."""

from pathlib import Path

import pytest

from tests.makers.searches import linked_cache
from tools.checks import worked_examples

EXAMPLES = {example.__name__: example for example in worked_examples.EXAMPLES}
QUICK = ("try_option", "try_connection", "try_stage")
"""Those that run in every test run: the others only make a plan."""


@pytest.mark.parametrize(
    "name", [example if example in QUICK else pytest.param(example, marks=pytest.mark.slow) for example in EXAMPLES]
)
def test_an_example_works_as_it_is_typed(
    name: str, warm_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(linked_cache(tmp_path / "cache")))
    assert EXAMPLES[name](worked_examples.Copy(tmp_path / "copy")) == ""
