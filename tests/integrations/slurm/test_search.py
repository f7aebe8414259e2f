"""Whole searches whose jobs a batch system runs with real processes."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from advisor.core import Status
from advisor.store import RunFolder
from tests.integrations.slurm import standin
from tests.makers.searches import Searched, command, environment, heads_of, linked_cache
from tests.processes import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def started(folder: Path, *options: str, settings: str = "") -> subprocess.Popen[str]:
    """Start a search with an empty cache of results."""
    (folder / "team.yaml").write_text(settings or "jobs: {mem_gb: 6}\n")
    cache = linked_cache(folder / "cache")
    return subprocess.Popen(
        command("--out", str(folder / "runs"), "--executor", f"slurm://{folder / 'team.yaml'}", *options),
        env={**environment(cache), **standin.install(folder / "slurm")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answers(run: RunFolder) -> dict[str, tuple[str, float]]:
    """Return file and accuracy of each configuration that has a result."""
    found = (each for each in run.evaluations() if each.status is Status.OK and each.accuracy and each.artefact_sha256)
    return {each.configuration.key: (each.artefact_sha256, each.accuracy.value) for each in found}


def test_batch_jobs_find_the_same_files(with_images: Searched, warm_cache: Path, photos: Path, tmp_path: Path) -> None:
    search = started(tmp_path, *heads_of(photos), "--workers", "2")
    _, err = search.communicate(timeout=1200)
    assert search.returncode == with_images.code, err
    run = RunFolder((tmp_path / "runs" / "latest").resolve())
    here, there = answers(with_images.run), answers(run)
    both = here.keys() & there.keys()  # the order of results decides which forms are tried
    assert len(both) >= 2
    assert {key: there[key] for key in both} == {key: here[key] for key in both}
    assert not list((tmp_path / "cache" / "slurm").iterdir())
    assert len(standin.states(tmp_path / "slurm")) <= 2


def test_an_interrupt_cancels_the_jobs(warm_cache: Path, photos: Path, tmp_path: Path) -> None:
    search = started(tmp_path, *heads_of(photos))
    until(lambda: "RUNNING" in standin.states(tmp_path / "slurm").values())
    os.kill(search.pid, signal.SIGINT)
    search.communicate(timeout=600)
    until(lambda: not {"RUNNING", "PENDING"} & set(standin.states(tmp_path / "slurm").values()))
    assert not list((tmp_path / "cache" / "slurm").iterdir())
