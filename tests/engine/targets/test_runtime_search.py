"""``advisor search --device host:litert,host:onnxruntime`` on the smallest card: every file measured in both."""

from pathlib import Path

import pytest

from advisor.core import Provenance, Status
from advisor.engine import LoadedRun, load_run
from tests.devices.requirements import require_onnx
from tests.makers.searches import Searched, heads_of, searched_once

pytestmark = pytest.mark.slow

LITERT, ONNX = "host", "host:onnxruntime"


@pytest.fixture(scope="session")
def in_both(shared_folder: Path, warm_cache: Path, photos: Path) -> Searched:
    require_onnx()
    arguments = (*heads_of(photos), "--device", f"host:litert,{ONNX}", "--compressions", "int8,dynamic_int8")
    return searched_once(shared_folder / "runtimes", warm_cache, *arguments, "--threads", "1")


@pytest.fixture(scope="session")
def stored(in_both: Searched) -> LoadedRun:
    assert in_both.code == 0, in_both.err
    return load_run(in_both.run.path)


def test_each_file_is_measured_in_each_runtime(stored: LoadedRun) -> None:
    ok = [row for row in stored.evaluations if row.status is Status.OK]
    measured = {(row.configuration.target.device, row.configuration.compression) for row in ok}
    assert {(device, form) for device in (LITERT, ONNX) for form in ("float32", "int8")} <= measured
    assert all(row.latency is not None and row.latency.provenance is Provenance.MEASURED for row in ok)
    exports = [row.remote.onnx_export for row in ok if row.remote is not None]
    assert exports
    assert all(export["same_answers"] == 32 for export in exports)


def test_a_form_without_an_onnx_export_is_skipped_there_with_the_reason(stored: LoadedRun) -> None:
    rows = [row for row in stored.evaluations if row.configuration.compression == "dynamic_int8"]
    there = [row for row in rows if row.configuration.target.device == ONNX]
    assert all(row.status is Status.SKIPPED and "not dynamic_int8" in row.reason for row in there)


def test_the_answer_compares_the_runtimes(in_both: Searched, stored: LoadedRun) -> None:
    assert set(stored.by_device) == {LITERT, ONNX}
    said = " ".join(in_both.out.split())
    assert "Runtimes: LiteRT" in said
    assert "for the same model on this machine" in said
