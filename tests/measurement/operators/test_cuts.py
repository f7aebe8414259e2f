"""Operators timed by cutting the file, where the library has no profiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.core.errors import StageError
from advisor.measurement.operators import runs
from advisor.measurement.operators.cut_process import prefix
from advisor.measurement.operators.profile import profile
from advisor.measurement.operators.runs import BY_CUTS
from advisor.measurement.processes.child import Reported
from advisor.tflite.float16 import to_float16
from advisor.tflite.model import read
from tests.measurement import small_models


@pytest.mark.integration
def test_cuts_find_what_the_profiler_finds(swish_model: Path) -> None:
    cut, seen = (profile(swish_model, by_cuts=way, with_roofline=False) for way in (True, False))
    assert cut.notes == (BY_CUTS,)
    assert cut.by_type[0].type == seen.by_type[0].type == "HARD_SWISH"
    assert cut.partitions == seen.partitions
    assert {row.node.index: row.where for row in cut.operators if row.node} == {
        row.node.index: row.where for row in seen.operators if row.node
    }
    assert cut.macs == seen.macs


@pytest.mark.integration
def test_a_library_without_a_known_profiler_is_cut(swish_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Reported("the installed LiteRT lacks LiteRtStartProfiler", kind="runtime")

    monkeypatch.setattr(runs, "profiled", refuse)
    assert profile(swish_model, with_roofline=False).notes == (BY_CUTS,)


@pytest.mark.integration
def test_a_file_that_cannot_run_is_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "custom.tflite"
    path.write_bytes(small_models.unknown_operator())
    with pytest.raises(StageError, match="unresolved custom op: Nobody"):
        profile(path, with_roofline=False)


@pytest.mark.integration
def test_expanded_constants_are_no_cut_of_their_own(float_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "half.tflite"
    path.write_bytes(to_float16(float_model.read_bytes()))
    found = profile(path, by_cuts=True, with_roofline=False)
    assert "DEQUANTIZE" not in {row.type for row in found.operators}
    assert len(found.operators) == 6


@pytest.mark.parametrize("count", range(1, 7))
def test_a_cut_file_ends_after_so_many_operators(float_model: Path, count: int) -> None:
    whole, cut = read(float_model), read(prefix(float_model.read_bytes(), count, set()))
    assert [operator.name for operator in cut.operators] == [operator.name for operator in whole.operators[:count]]
    assert cut.outputs[-1].shape == whole.tensors[whole.operators[count - 1].outputs[0]].shape
    assert cut.size_bytes <= whole.size_bytes
