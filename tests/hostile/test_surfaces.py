"""A sample of the hostile cases of each surface: none ends badly. ``python -m benchmarks hostile`` tries all."""

import random
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.hostile_surfaces import SURFACES
from benchmarks.hostile_surfaces.ground import Ground
from tests.processes import PATIENCE_S

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]
SAMPLE = 20


@pytest.mark.parametrize("surface", SURFACES)
def test_a_sample_of_a_surface_ends_well(tmp_path: Path, surface: str) -> None:
    with (ground := Ground(tmp_path, PATIENCE_S)).held:
        cases = list(import_module(f"benchmarks.hostile_surfaces.{surface}").cases(ground))
        chosen = random.Random(surface).sample(cases, min(SAMPLE, len(cases)))
        assert {name: found for name, tried in chosen if (found := tried())} == {}
