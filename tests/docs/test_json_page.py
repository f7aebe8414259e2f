"""The page of the JSON documents links every schema, and its examples for ``jq`` run as printed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core.evaluation import Status
from tests.builders import configuration, evaluation
from tests.documents import SCHEMAS
from tests.measurement import small_models
from tests.requirements import skip_or_fail
from tests.run_folders import candidates, write_run

PAGE = SCHEMAS.parent / "reference" / "json.md"
EXAMPLES = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
MEASURED = "advisor (benchmark|reevaluate)"
COMMAND = """#!/bin/sh
case " $* " in *" --device "*) ;; " benchmark "*) set -- "$@" --effort search --force;; esac
exec {python} -m advisor "$@"
"""
"""The command as a user has it, except that a measurement is short and does not wait for a quiet machine."""


def test_every_schema_is_linked() -> None:
    linked = re.findall(r"\(\.\./schemas/([\w.]+)\)", PAGE.read_text(encoding="utf-8"))
    assert sorted(linked) == sorted(path.name for path in SCHEMAS.iterdir())


@pytest.mark.integration
@pytest.mark.parametrize(
    "example",
    [
        pytest.param(text, id=str(number), marks=pytest.mark.slow if re.search(MEASURED, text) else ())
        for number, text in enumerate(EXAMPLES)
    ],
)
def test_an_example_prints_something(example: str, starts_processes: None, tmp_path: Path) -> None:
    if shutil.which("jq") is None:
        skip_or_fail("jq is not installed")
    changed = [evaluation("best", "int8", accuracy=92, half_width=1, latency=60, size=6e6), *candidates()[1:]]
    skipped = replace(changed[0], configuration=configuration("large", "int8", 1), status=Status.SKIPPED, reason="slow")
    before = write_run(tmp_path / "runs", name="before").path
    before.rename(before.with_name("before"))
    write_run(tmp_path / "runs", [*changed, skipped], name="after")
    (tmp_path / "model.tflite").write_bytes(small_models.classifier())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "advisor").write_text(COMMAND.format(python=shlex.quote(sys.executable)))
    (tmp_path / "bin" / "advisor").chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "ADVISOR_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(["bash", "-euc", example], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, bool(done.stdout.strip())) == (0, True), done.stderr
    assert "null" not in done.stdout
