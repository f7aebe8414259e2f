"""How long artefacts are timed, and which earlier timing is as good."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from advisor.engine.execution import call_locally
from advisor.engine.execution.machine import Machine
from advisor.engine.pipeline.stages import Artefact
from advisor.engine.pipeline.timing import SURVEY, SURVEYED_FROM, THOROUGH, Timer, effort_for
from advisor.measurement.host import describe
from advisor.store import ArtifactCache
from advisor.store.hashing import sha256_file


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    from advisor.catalog.catalogue import load_catalogue
    from advisor.engine.pipeline import jobs

    folder = tmp_path_factory.mktemp("timing")
    jobs.convert(load_catalogue()["mobilenet_v1_0.25_128"], None, folder / "master.tflite")
    path = folder / "model.tflite"
    jobs.cut(folder / "master.tflite", "probabilities", path)
    return Artefact(path, sha256_file(path), path.stat().st_size, {})


def timed(artefact: Artefact, cache: Path, effort: str, events: list[str]) -> Any:
    context: Any = SimpleNamespace(
        cache=ArtifactCache(cache),
        machine=Machine(1),
        notify=lambda *event: events.append(event[-1]),
        request=SimpleNamespace(thread_counts=(1,), remeasure=False),
        on_device=call_locally,
        host=describe(),
    )
    # In a thread of its own: a browser's driver may have left a running loop in this one.
    with ThreadPoolExecutor(1) as thread:
        work = Timer(context, effort).measure(artefact, 1, 0.0, "card", "float32")
        return thread.submit(asyncio.run, work).result()


def test_hundreds_of_configurations_are_timed_briefly() -> None:
    assert (effort_for(SURVEYED_FROM - 1), effort_for(SURVEYED_FROM)) == (THOROUGH, SURVEY)


def test_a_timing_says_how_long_it_took_its_time(artefact: Artefact, tmp_path: Path) -> None:
    for effort in (SURVEY, THOROUGH):
        timing = timed(artefact, tmp_path, effort, [])
        assert timing.facts.effort == effort
        assert timing.latency.value > 0


def test_a_thorough_timing_is_taken_for_a_brief_one_and_not_the_other_way_round(
    artefact: Artefact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from advisor.engine.pipeline import timing

    real = timing._row
    monkeypatch.setattr(timing, "_row", lambda *arguments: {**real(*arguments), "contended": False})
    events: list[str] = []
    timed(artefact, tmp_path, SURVEY, events)
    thorough = timed(artefact, tmp_path, THOROUGH, events)
    again = timed(artefact, tmp_path, SURVEY, events)
    assert events == ["started", "done", "started", "done", "cached"]
    assert again == thorough
