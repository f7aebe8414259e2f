"""How long artefacts are timed, and what a timing says."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.engine.pipeline.events import EventKind, StageEvent
from advisor.engine.pipeline.materials import Artefact
from advisor.engine.pipeline.stage import Scope
from advisor.engine.pipeline.stages.figures import SURVEY, SURVEYED_FROM, THOROUGH, effort_for, timing
from advisor.store.files import sha256_file
from tests.builders import present
from tests.engine.pipeline.walking import materials, walk

SCOPE = Scope("card", "none", "float32")


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    from advisor.catalog.catalogue import load_catalogue
    from advisor.catalog.convert import convert
    from advisor.engine.pipeline.stages import jobs

    folder = tmp_path_factory.mktemp("timing")
    convert(load_catalogue()["mobilenet_v1_0.25_128"], None, folder / "master.tflite")
    path = folder / "model.tflite"
    jobs.cut(folder / "master.tflite", "probabilities", path)
    return Artefact(path, sha256_file(path), path.stat().st_size, {})


def test_hundreds_of_configurations_are_timed_briefly() -> None:
    assert (effort_for(SURVEYED_FROM - 1), effort_for(SURVEYED_FROM)) == (THOROUGH, SURVEY)


@pytest.mark.integration
@pytest.mark.parametrize("effort", [SURVEY, THOROUGH])
def test_a_timing_says_how_long_it_took_its_time(artefact: Artefact, tmp_path: Path, effort: str) -> None:
    events: list[StageEvent] = []
    found = walk(timing(SCOPE, artefact), materials(tmp_path, effort=effort), listen=events.append)[1]
    assert present(found.timing).effort == effort
    assert present(found.latency).value > 0
    assert [event.kind for event in events] == [EventKind.STARTED, EventKind.DONE]
