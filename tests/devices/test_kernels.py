"""Kernels: their files, their timing over a real connection, and what is left out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from advisor.core.errors import StageError
from advisor.devices.connections.host import HostConnection
from advisor.devices.connections.protocol import Timing
from advisor.devices.kernels import timing
from advisor.devices.kernels.files import as_int8, kernel_file
from advisor.devices.kernels.timing import MOST_COPIES, copies_of, design, rounds_us, time_kernels
from advisor.tflite.model import read
from advisor.tflite.work import Work, works_of

SMALL = (Work("ADD", 64, 8, read=1024), Work("CONV_2D", 64, 8, 8, read=512), Work("MEAN", 1, 8, read=512))

HANGS = """\
import runpy, sys, time
if any({name!r} in argument for argument in sys.argv):
    time.sleep(600)
sys.argv[0] = {agent!r}
runpy.run_path({agent!r}, run_name="__main__")
"""


@pytest.mark.parametrize("work", design(), ids=lambda work: f"{work.kind}-{work.pixels}-{work.channels}-{work.taps}")
def test_a_file_has_its_operator_in_both_forms(work: Work) -> None:
    data = kernel_file(work, 2)
    found = read(data)
    sizes = {(each.kind, each.written, each.macs, each.read) for each in works_of(found)}
    assert sizes == {(work.kind, work.written, work.macs, work.read)}
    assert len(works_of(found)) == 2
    stored = read(as_int8(data))
    assert {operator.name for operator in stored.operators} == {work.kind}
    assert {tensor.dtype for tensor in (*stored.inputs, *stored.outputs)} == {"int8"}


def test_the_design_has_some_eighty_operators_and_copies_the_small_ones() -> None:
    works = design()
    assert 60 <= len(works) == len(set(works)) <= 90
    assert copies_of(Work("SOFTMAX", 1, 10, read=10)) == MOST_COPIES
    assert copies_of(Work("CONV_2D", 3136, 64, 64, 9, read=200_704)) == 1


def test_copies_of_weights_fill_more_than_the_cache_of_a_core() -> None:
    late = Work("CONV_2D", 16, 1152, 192, read=16 * 192)
    assert copies_of(late) * late.weights > 2_000_000
    large = Work("CONV_2D", 49, 1024, 1024, read=49 * 1024)
    assert copies_of(large) * large.macs <= 200_000_000


@pytest.mark.integration
def test_kernels_are_timed_on_this_machine(tmp_path: Path) -> None:
    told: list[str] = []
    found = time_kernels(HostConnection(), "cpu-x1", 1, ("float32", "int8"), tmp_path, told.append, SMALL)
    every = {(work, form) for work in SMALL for form in ("float32", "int8")}
    assert {(kernel.work, kernel.form) for kernel in found.kernels} <= every
    assert len(found.kernels) + len(found.left_out) == 6
    assert all(0 < kernel.microseconds < 1e5 for kernel in found.kernels)
    assert found.runtime.startswith("ai-edge-litert==")
    assert told == ["timing kernels 1 to 6 of 6 on host"]


@pytest.mark.slow
def test_a_kernel_that_times_out_is_left_out_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "START_S", 25.0)
    monkeypatch.setattr(timing, "SECONDS", 0.1)
    agent = tmp_path / "agent.py"
    agent.write_text(HANGS.format(name="kernel4-", agent=str(HostConnection().agent)))
    works = (*SMALL, Work("MUL", 64, 8, read=1024), Work("LOGISTIC", 64, 8, read=512))
    found = time_kernels(HostConnection(agent), "cpu-x1", 1, ("float32",), tmp_path, lambda _text: None, works)
    assert len(found.kernels) == 4
    (line,) = found.left_out
    assert line.startswith("LOGISTIC 64 x 8, float32: ")
    assert "did not end within 25.1 s" in line


@pytest.mark.integration
def test_a_device_that_times_nothing_fails_soon(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text("import sys; sys.exit('no runtime here')")
    works = [Work("ADD", pixels, 8, read=16 * pixels) for pixels in (1, 4, 9, 16, 25, 36)]
    with pytest.raises(StageError, match="no runtime here"):
        time_kernels(HostConnection(agent), "cpu-x1", 1, ("float32",), tmp_path, lambda _text: None, works)


def timed(rounds_ns: list[int]) -> Timing:
    blocks = [{"wall_ns": [time_ns], "cpu_ns": None} for time_ns in rounds_ns]
    return Timing(Path(sys.executable), 1, 1.0, 8, 1.0, 1.0, "runtime", details={"blocks": blocks})


def test_the_usual_round_counts_and_the_second_best_one_shows_a_disturbance() -> None:
    assert rounds_us(timed([1000, 2000, 9000, 3000, 4000])) == (3.0, 2.0)
    usual, best = rounds_us(timed([1000, 1000, 4000, 4000, 4000, 4000]))
    assert usual > timing.UNSTEADY * best


@pytest.mark.parametrize(
    ("details", "expected"),
    [({"min_ms": 0.9}, (1000.0, 900.0)), ({"min_ms": 0.2}, (1000.0, 200.0)), ({}, (1000.0, 1000.0))],
)
def test_a_tool_without_rounds_gives_its_median_and_its_shortest_run(
    details: Mapping[str, Any], expected: tuple[float, float]
) -> None:
    found = Timing(Path("a"), 1, 1.0, 8, 1.0, 1.0, "tflite benchmark_model", details=details)
    assert rounds_us(found) == pytest.approx(expected)


class Unsteady:
    """This machine, where the rounds of the first file differ and those of the others do not, whatever else runs."""

    label = "host"

    def __init__(self) -> None:
        self._disturbed: Path | None = None

    def measure(self, job: Any) -> tuple[Timing, ...]:
        found = HostConnection().measure(job)
        self._disturbed = self._disturbed or found[0].model
        return tuple(self._with_rounds(one) for one in found)

    def _with_rounds(self, one: Timing) -> Timing:
        rounds = timed(
            [1000, 1000, *[4000 if self._disturbed and one.model.name == self._disturbed.name else 1000] * 3]
        )
        return Timing(one.model, 1, 1.0, 8, 1.0, 1.0, one.runtime, details={"blocks": rounds.details["blocks"]})


@pytest.mark.integration
def test_a_kernel_whose_rounds_differ_is_left_out_with_one_line(tmp_path: Path) -> None:
    works = (*SMALL, Work("MUL", 64, 8, read=1024), Work("LOGISTIC", 64, 8, read=512))
    found = time_kernels(Unsteady(), "cpu-x1", 1, ("float32",), tmp_path, lambda _text: None, works)
    assert "ADD 64 x 8, float32: the rounds differ by a factor of 4.0" in found.left_out
    assert SMALL[0] not in {kernel.work for kernel in found.kernels}
