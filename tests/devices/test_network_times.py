"""Times of operators and of networks as their sum, measurements that contradict the others, and throttling."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from advisor.catalog import Catalogue
from advisor.core import UsageError
from advisor.devices import timings_of_agent
from advisor.devices._connections.agent import describe_throttling
from advisor.devices._connections.benchmark_model import parse_output
from advisor.devices._latency.agreement import choose_agreeing, student_density
from advisor.devices._latency.base import fit_base
from advisor.devices._latency.model import estimate_latencies, find_contradicting, queries_of_known
from advisor.devices._latency.operator_times import OPERATORS_FILE, OperatorTimes, model_operators
from advisor.devices._latency.posterior import LatencyPosterior, posterior_of
from advisor.devices._latency.table import LatencyTable
from advisor.isolation import ChildPool
from advisor.tflite import CONVOLUTION, DENSE, DEPTHWISE, Work, count_graph_works, read, select_output
from benchmarks.catalogue_files import write_operators
from benchmarks.latency_protocols.regimes import effective_number
from benchmarks.latency_protocols.validation import hide
from tests.builders import must_fail
from tests.devices.test_adb import PRINTED
from tests.devices.test_latency import made_table
from tests.tables import with_cases

SEEN = np.arange(6)


def microseconds(work: Work) -> float:
    """A device that computes in tiles of 4 rows and 8 columns, and starts an operator in half a microsecond."""
    rows, columns = math.ceil(work.pixels / 4) * 4, math.ceil(work.channels / 8) * 8
    if work.kind == CONVOLUTION and work.pixels > 1:
        return 0.5 + rows * columns * work.depth * work.taps / 2e4 + work.written / 1e4
    if work.kind == DEPTHWISE:
        return 0.5 + work.pixels * columns * work.taps / 5e3
    if work.kind == DENSE or work.kind == CONVOLUTION:
        return 0.5 + work.weights / 1e4
    return 0.5 + (work.written * work.taps if work.taps > 1 else work.written + work.read) / 1e4


@pytest.fixture(scope="module")
def times() -> OperatorTimes:
    """Every ninth operator of the catalogue was timed."""
    every = sorted({work for works in model_operators().values() for work, _ in works})
    return OperatorTimes((work, microseconds(work)) for work in every[::9])


@with_cases
def test_an_operator_that_was_not_timed_takes_what_its_parts_take(times: OperatorTimes, fields: dict[str, Any]) -> None:
    work = Work(**fields)
    total, log_sd = times.network([(work, 3)])
    assert total * 1e3 == pytest.approx(3 * microseconds(work), rel=0.03)
    assert 0 < log_sd < 0.3


def test_an_operator_that_was_timed_takes_that_time_and_a_network_without_additions_is_covered() -> None:
    odd, other = Work("ADD", 196, 300, read=117600), Work("ADD", 196, 400, read=156800)
    timed = OperatorTimes([(odd, 1000.0), *((Work("ADD", side**2, 64, read=128 * side**2), side) for side in (7, 14))])
    total, log_sd = timed.network([(odd, 2)])
    assert total == 2.0
    assert log_sd < 0.03 < timed.network([(other, 2)])[1]
    timed, pool = OperatorTimes([(Work(DENSE, 1, 5, 7, read=7), 1.0)]), Work("MAX_POOL_2D", 49, 8, read=392)
    assert timed.covers([(Work(DENSE, 1, 9, 9, read=9), 1)])
    assert not timed.covers([(pool, 1)])


def test_every_network_is_the_sum_of_its_operators_unless_weights_differ_in_kind(times: OperatorTimes) -> None:
    for works in model_operators().values():
        assert times.covers(works)
        expected = sum(number * microseconds(work) for work, number in works if work.kind != "RESHAPE") / 1e3
        assert times.network(works)[0] == pytest.approx(expected, rel=0.1)
    assert not times.covers([(Work("BATCH_MATMUL", 64, 64, 64, read=8192), 1)])
    assert times.covers([(Work("GELU", 64, 64, read=4096), 1)])
    assert times.network([(Work("GELU", 64, 64, read=4096), 1)])[1] > 0.5


def test_the_shipped_operators_are_those_of_the_catalogue() -> None:
    cards = Catalogue.load()
    assert {name for name, card in cards.items() if not card.by_file} < set(model_operators()) < set(cards)
    kinds = {work.kind for works in model_operators().values() for work, _ in works}
    assert "BATCH_MATMUL" not in kinds  # attention, of which no kernel is timed
    for name, works in model_operators().items():
        macs = sum(number * work.macs for work, number in works if work.weights)
        assert macs == pytest.approx(cards[name].macs, rel=0.05)


@pytest.mark.slow
def test_the_shipped_operators_are_those_of_a_conversion(tmp_path: Path) -> None:
    name, path = "mobilenet_v1_0.25_128", tmp_path / "model.tflite"
    with ChildPool(tmp_path / "log") as pool:
        pool.call("advisor.catalog._convert:convert", Catalogue.load()[name], None, path)
    assert count_graph_works(read(select_output(path.read_bytes(), "probabilities"))) == model_operators()[name]


def test_a_table_of_operators_reads_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.devices._latency.operator_times.find_shipped_profiles", lambda: tmp_path)
    works = {"b": ((Work("ADD", 4, 4, read=32), 2),), "a": ((Work(DENSE, 1, 5, 7, read=7), 1),)}
    write_operators(tmp_path / OPERATORS_FILE, works)
    assert model_operators.__wrapped__() == works
    (tmp_path / OPERATORS_FILE).write_text("model,number\nadd,x\n")
    must_fail(UsageError, "cannot be read", model_operators.__wrapped__)


def test_errors_of_different_kinds_cancel(times: OperatorTimes) -> None:
    add, swish = Work("ADD", 196, 65, read=25480), Work("HARD_SWISH", 196, 129, read=25284)
    alone = times.network([(swish, 1)])[1]
    assert times.network([(add, 1), (swish, 1)])[1] < alone


def test_noise_is_what_neither_device_nor_network_explains(table: LatencyTable) -> None:
    from benchmarks.latency_protocols.protocols import noise

    (one, _) = noise(table, "float32")
    assert one.both < one.offset <= one.raw
    shifted = replace(table, values=table.values + np.arange(len(table.columns))[:, None])
    assert noise(shifted, "float32")[0].offset == pytest.approx(one.offset)


def test_errors_that_are_equal_on_one_silicon_count_once_and_unrelated_ones_each() -> None:
    random = np.random.default_rng(0)
    groups = [f"s{i // 20}" for i in range(200)]
    assert effective_number(np.repeat(random.normal(size=10), 20), groups) == pytest.approx(10, rel=0.01)
    assert effective_number(random.normal(size=200), groups) > 100
    assert effective_number(random.normal(size=200), ["s0"] * 200) == 1
    sizes = np.repeat(np.exp(random.normal(0, 2, 10)), 20)
    assert effective_number(sizes * random.choice([-1, 1], 200), [f"s{i // 20}" for i in range(200)]) < 15


@pytest.fixture(scope="module")
def complete() -> LatencyTable:
    table = made_table()
    return LatencyTable(table.models, table.families, table.features, table.columns, fit_base(table).filled)


def with_error(table: LatencyTable, factor: float, wrong: int = 2) -> tuple[LatencyPosterior, np.ndarray]:
    """The posterior of the first target from six of its models, of which one is wrong, and the measured values."""
    values = table.values[0, SEEN].copy()
    values[wrong] += np.log(factor)
    return posterior_of(fit_base(hide(table, [0])[0]), table.columns[0], SEEN, values), values


@pytest.mark.parametrize("factor", [4.0, 0.25, 1000.0])
def test_a_wrong_row_is_named_and_hardly_moves_the_others(complete: LatencyTable, factor: float) -> None:
    posterior, values = with_error(complete, factor)
    assert set(find_contradicting(posterior, values)) == {"m2"}
    assert find_contradicting(posterior, values)["m2"] == pytest.approx(np.exp(complete.values[0, 2]), rel=0.2)
    assert _median_error(complete, posterior) < _median_error(complete, with_error(complete, 1.0)[0]) + 0.01


def _median_error(table: LatencyTable, posterior: LatencyPosterior) -> float:
    """Return the median error (log) of the models of the first target that were not measured."""
    rest = np.arange(6, 24)
    errors = estimate_latencies(posterior, queries_of_known(posterior.base, rest)).mean - table.values[0, rest]
    return float(np.median(np.abs(errors)))


def test_of_two_measurements_none_is_wrong_and_at_most_a_third_is_set_aside(complete: LatencyTable) -> None:
    values = complete.values[0, :2] + np.array([0.0, 3.0])
    posterior = posterior_of(fit_base(complete), complete.columns[0], np.arange(2), values, excluded=[0])
    assert np.array_equal(posterior.doubts, [0, 0])
    residuals = np.array([[0.0, 0.0, 3.0, 0.0, 30.0, 300.0]])
    assert [list(kept) for _, kept in choose_agreeing(np.zeros(1), residuals, [0.01 * np.eye(6)])] == [[0, 1, 2, 3]]


def test_the_density_is_students() -> None:
    # Of two independent-looking values with the precision of one, and 4 degrees of freedom: scipy.stats.multivariate_t.
    assert student_density(np.array([0.0]), 0.0, 1)[0] == pytest.approx(np.log(3 / 8))
    assert student_density(np.array([1.0]), 0.0, 2)[0] == pytest.approx(-np.log(2 * np.pi) - 3 * np.log(1.25))


@with_cases
def test_blocks_that_keep_rising_are_throttling(blocks: list[float], said: str) -> None:
    assert describe_throttling(blocks)[: len(said) or None] == said


@given(st.lists(st.floats(1, 1.05), min_size=4, max_size=30))
def test_noise_is_no_throttling(blocks: list[float]) -> None:
    assert describe_throttling(blocks) == ""


def series(clock: str) -> dict[str, Any]:
    rising_ns, flat_ns = [1000.0 * (1 + 0.1 * block) for block in range(8)], [1000.8, 1000.7, 1000.4, 1000.2] * 2
    cpu_ns = rising_ns if clock == "rising" else flat_ns
    rows = [{"wall_ns": [wall] * 4, "cpu_ns": [cpu] * 4} for wall, cpu in zip(rising_ns, cpu_ns, strict=True)]
    return {"model": "a", "threads": 1, "first_ns": 1, "load_ns": 1, "blocks": rows}


@pytest.mark.parametrize(("clock", "expected"), [("rising", "throttled"), ("flat", "")])
def test_the_agents_blocks_are_judged_by_cpu_time(clock: str, expected: str) -> None:
    (timing,) = timings_of_agent({"series": [series(clock)], "load": {}}, [Path("a.tflite")], ["a"])
    assert timing.throttled[:9] == expected


@pytest.mark.parametrize(("waited", "expected"), [(0, "throttled"), (None, "throttled"), (600, "")])
def test_of_several_threads_blocks_that_waited_for_a_processor_do_not_count(waited: int | None, expected: str) -> None:
    document = series("rising")
    blocks = [{**row, "cpu_ns": [], "waited_ns": waited, "elapsed_ns": 1000} for row in document["blocks"]]
    said = {"series": [{**document, "threads": 2, "blocks": blocks}], "load": {}}
    (timing,) = timings_of_agent(said, [Path("a.tflite")], ["a"])
    assert timing.throttled[:9] == expected


def test_the_phones_tool_tells_it_by_first_mean_and_last() -> None:
    def throttled(runs: str) -> str:
        return parse_output(PRINTED.replace("count=50 first=12000 curr=11800", runs), Path("a.tflite"), 1).throttled

    assert throttled("count=50 first=12000 curr=11800") == ""
    assert throttled("count=50 first=9000 curr=14900") == "throttled: the last run took 1.66 times as long as the first"
    assert throttled("count=50 first=12000 curr=14900") == ""
