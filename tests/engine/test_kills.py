"""``kill -9`` at random moments, of the search, of one of its children, or of both: the answer is that of peace.

``ADVISOR_KILLS`` says at how many moments (5); ``ADVISOR_KILL_SEED`` which. ``python -m benchmarks kills`` keeps a
table of twenty.
"""

import os
from pathlib import Path

import pytest

from tests.engine.killing import Peace, disturbed, undisturbed

KILLS = int(os.environ.get("ADVISOR_KILLS", "5"))
SEED = int(os.environ.get("ADVISOR_KILL_SEED", "0"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def peace(warm_cache: Path, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Peace:
    return undisturbed(photos, tmp_path_factory.mktemp("peace"))


@pytest.mark.parametrize("moment", range(KILLS))
def test_a_kill_changes_nothing_of_the_answer(moment: int, peace: Peace, photos: Path, tmp_path: Path) -> None:
    killed = disturbed(moment, SEED, peace, photos, tmp_path)
    assert killed.code == 0, killed
    assert (killed.lost, killed.twice) == (0, 0)
    assert killed.same_figures
    assert killed.other_files == 0
    assert killed.left == 0
    assert killed.same_front
