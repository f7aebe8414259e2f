"""Latency of real files in real child processes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.core import Provenance, UsageError
from advisor.measurement import LatencyResult, ModelTiming, Verdict, measure
from advisor.measurement._latency.timing import compare_with_first
from tests.builders import must_fail
from tests.tables import with_cases

judge = LatencyResult.of_series
QUIET = {"others_cores": 0.0, "cores": 4}


@pytest.fixture(scope="module")
def timing(starts_processes: None, float_model: Path) -> ModelTiming:
    return measure(float_model, [1, 2], "survey", retry=False)


def series(walls: list[list[float]], cpus: list[list[float]] | None, threads: int = 1, waited: float = 0.0) -> Any:
    """An agent's series from milliseconds; ``waited`` is a share of the time."""
    rows = []
    for index, block in enumerate(walls):
        elapsed, cpu = round(sum(block) * 1e6), None if cpus is None else [value * 1e6 for value in cpus[index]]
        wait = waited * elapsed * threads
        rows.append({"wall_ns": [1e6 * ms for ms in block], "cpu_ns": cpu, "waited_ns": wait, "elapsed_ns": elapsed})
    return {"threads": threads, "first_ns": 4e6, "load_ns": 2e6, "blocks": rows}


def test_results_come_in_the_order_asked_with_their_figures(timing: ModelTiming) -> None:
    assert [result.threads for result in timing.results] == [1, 2]
    single = timing.at(1)
    assert single.cpu is not None
    assert 0 < single.wall.min <= single.wall.median <= single.wall.max
    assert single.wall.runs >= 32
    assert single.load_ms > 0
    assert single.first_ms > 0
    assert timing.runtime == "ai-edge-litert==2.3.0"


def test_memory_is_that_of_the_model_not_of_the_process(timing: ModelTiming) -> None:
    assert timing.peak_memory_bytes is not None
    assert timing.process_memory_bytes is not None
    assert 0 < timing.peak_memory_bytes < timing.process_memory_bytes


def test_quantities_carry_where_they_came_from(timing: ModelTiming) -> None:
    quantities = timing.to_quantities(1)
    assert set(quantities) == {"latency", "latency_p90", "memory"}
    assert all(row.provenance is Provenance.MEASURED for row in quantities.values())
    latency = quantities["latency"]
    assert latency.source.startswith("host ")
    assert "ai-edge-litert==2.3.0, 1 thread" in latency.source
    assert latency.low is not None
    assert latency.high is not None
    assert latency.low <= latency.value <= latency.high


@with_cases
def test_wrong_threads_and_efforts_are_refused(float_model: Path, threads: list[int], effort: str, reason: str) -> None:
    must_fail(UsageError, reason, measure, float_model, threads, effort)


def test_steady_blocks_are_stable_and_blocks_that_differ_are_not_though_nothing_else_ran() -> None:
    result = judge(series([[3.0, 3.1, 3.0]] * 8, [[3.0, 3.1, 3.0]] * 8), QUIET)
    assert (result.verdict, result.contended) == (Verdict.STABLE, False)
    assert (result.rank_ms, result.clock) == (3.0, "wall time")
    walls = [[3.0] * 5, [4.0] * 5] * 4
    result = judge(series(walls, walls), QUIET)
    assert (result.verdict, result.contended) == (Verdict.UNSTABLE, False)
    assert "14.3%" in result.reason


def test_rare_long_preemptions_count_as_contended_although_most_runs_are_clean() -> None:
    walls = [[1.0] * 9 + [5.0]] * 8
    result = judge(series(walls, [[1.0] * 10] * 8), QUIET)
    assert result.verdict is Verdict.CONTENDED
    assert result.wall.p90 > 1.0
    assert (result.rank_ms, result.budget_ms) == (1.0, 1.0)
    assert "CPU time" in result.clock


def test_waiting_for_a_processor_is_contended_at_two_threads_and_without_a_cpu_clock() -> None:
    walls = [[3.0, 3.1, 3.0]] * 8
    assert judge(series(walls, None), QUIET).cpu is None
    assert judge(series(walls, None), QUIET).verdict is Verdict.STABLE
    assert judge(series(walls, None, waited=0.3), QUIET).clock == "shortest wall time (contended machine)"
    walls = [[1.5, 2.0, 6.0]] * 8
    result = judge(series(walls, None, threads=2, waited=0.3), QUIET)
    assert result.verdict is Verdict.CONTENDED
    assert result.rank_ms == 1.5
    assert result.budget_ms == result.wall.p90


def test_other_processes_are_contention_only_where_no_processor_is_left_for_them() -> None:
    walls = [[1.0, 1.0, 1.0]] * 8
    busy = {**QUIET, "others_cores": 2.0}
    assert not judge(series(walls, None, threads=2), busy).contended
    assert judge(series(walls, None, threads=3), busy).contended
    assert judge(series(walls, None, threads=5), QUIET).contended


def test_one_thread_wants_an_idle_processor_beside_it() -> None:
    calm = series([[1.0, 1.0]] * 8, [[1.0, 1.0]] * 8)
    assert not judge(calm, {"others_cores": 0.3, "cores": 2}).contended
    assert judge(calm, {"others_cores": 1.0, "cores": 2}).verdict is Verdict.CONTENDED
    assert "during a timing with 1 thread" in judge(calm, {"others_cores": 1.0, "cores": 2}).reason
    assert not judge(calm, {"others_cores": 0.1, "cores": 1}).contended
    assert judge(calm, {"others_cores": 0.3, "cores": 1}).contended


def test_intervals_of_a_contended_result_come_from_the_clock_it_is_ranked_by() -> None:
    calm = judge(series([[3.0, 3.1]] * 8, [[3.0, 3.1]] * 8), QUIET)
    disturbed: LatencyResult = replace(calm, contended=True, cpu=replace(calm.wall, median=2.0, low=1.9, high=2.1))
    assert disturbed.rank_ms == 2.0
    assert disturbed.interval_ms == (1.9, 2.1)


def test_a_busy_machine_gives_a_ratio_only_by_one_clock() -> None:
    walls = [[3.0, 3.1, 3.0]] * 8
    browser, busy_browser = (judge(series(walls, None), QUIET), judge(series(walls, None, waited=0.3), QUIET))
    calm = judge(series(walls, [[1.0, 1.0, 1.0]] * 8, waited=0.0), {"others_cores": 0.0, "cores": 4})
    waiting = replace(calm, contended=True)
    found = [
        compare_with_first([("a", one), ("b", other)]) for one, other in ((waiting, busy_browser), (calm, busy_browser))
    ]
    assert found == [(), ()]
    assert [row.ratio for row in compare_with_first([("a", waiting), ("b", waiting)])] == [1.0]
    assert len(compare_with_first([("a", busy_browser), ("b", browser)])) == 1
