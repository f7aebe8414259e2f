"""A form that the installed runtime cannot run: the search goes on and says why it is not there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from advisor.core.evaluation import Status
from advisor.store import RunFolder
from advisor.tflite.model import read
from tests.engine.conftest import Searched, command, environment, heads_of, linked_cache
from tests.measurement.small_models import of_a_newer_runtime


def _aged(cache: Path, warm: Path) -> Path:
    """Copy a cache; its integer forms want operators of a version that no runtime has yet."""
    linked_cache(cache)
    shutil.copytree(warm / "artifacts", cache / "artifacts")
    for form in (cache / "artifacts").glob("compress-*/*/model.tflite"):
        data = form.read_bytes()
        if read(data).inputs[0].dtype == "int8":
            form.chmod(0o644)
            form.write_bytes(of_a_newer_runtime(data))
    return cache


def test_a_form_that_the_runtime_cannot_run_is_skipped_with_its_reason(
    with_images: Searched, warm_cache: Path, photos: Path, tmp_path: Path
) -> None:
    assert with_images.code == 0
    options = (*heads_of(photos), "--threads", "1")
    done = subprocess.run(
        command(*options, "--compressions", "float32,int8", "--out", str(tmp_path / "runs")),
        env=environment(_aged(tmp_path / "cache", warm_cache)),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = RunFolder((tmp_path / "runs" / "latest").resolve()).evaluations()
    refused = [e for e in found if e.configuration.compression == "int8"]
    assert refused
    assert {(e.status, e.stage) for e in refused} == {(Status.SKIPPED, "score")}
    assert all("this runtime cannot run int8" in e.reason and "version '99'" in e.reason for e in refused)
    assert Status.FAILED not in {e.status for e in found}
    assert any(e.status is Status.OK for e in found)
