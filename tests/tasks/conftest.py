"""Searches of the tasks that take seconds: of a small network, in this process, with tasks of other packages."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.api import search
from advisor.core import _tasks as tasks
from advisor.isolation import PoolKind
from advisor.measurement import timing
from advisor.training import FINETUNING
from tests.makers.forks import time_briefly
from tests.makers.imports import InThisProcess
from tests.makers.searches import SMALLEST
from tests.places import PROJECT
from tests.training.nets import uncompiled_steps

PACKAGES = [str(Path(__file__).with_name(name)) for name in ("small", "toy")]


@pytest.fixture(scope="session")
def small_catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalogue with one card ``small``: the smallest one, with images of 96 pixels."""
    document = yaml.safe_load((PROJECT / "catalogs" / "mobilenet_v1.yaml").read_text())
    card = next(card for card in document["cards"] if card["name"] == SMALLEST)
    catalog = tmp_path_factory.mktemp("catalog") / "small.yaml"
    catalog.write_text(yaml.safe_dump({**document, "cards": [{**card, "name": "small", "input_size": 96}]}))
    return catalog


@pytest.fixture(scope="module")
def installed_tasks() -> Iterator[None]:
    """Install the tasks of two other packages for this process and its children."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in PACKAGES:
            patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", os.pathsep.join([*PACKAGES, os.environ["PYTHONPATH"]]))
        patch.setitem(vars(tasks.TASKS), "_all", dict(tasks.TaskRegistry()))
        yield


@pytest.fixture(scope="module")
def search_small(warm_cache: Path, small_catalog: Path, installed_tasks: None) -> Callable[..., None]:
    """Return what searches the small card in two forms, unless the options say otherwise."""

    def run(data: Path, out: Path, **options: Any) -> None:
        usual = {"catalog": [str(small_catalog)], "candidates": ["small"], "compressions": ["float32", "int8"]}
        two_epochs = replace(FINETUNING["finetune_cached"], epochs=2)
        with pytest.MonkeyPatch.context() as patch, uncompiled_steps():
            patch.setenv("ADVISOR_CACHE_DIR", str(warm_cache))
            patch.setattr(PoolKind, "open", lambda _kind, log: InThisProcess(log))
            patch.setattr("advisor.training._finetune.finetuning.LABEL_STEPS", 1)
            patch.setitem(FINETUNING, "finetune_cached", two_epochs)
            patch.setitem(timing.measure.__kwdefaults__, "retry", False)  # a busy machine would be timed twice
            patch.setattr(timing, "_run_agent", time_briefly)
            search(data=str(data), out=str(out), threads=[1], workers=1, **{**usual, **options})

    return run
