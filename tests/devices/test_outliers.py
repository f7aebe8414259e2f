"""Measurements that contradict the others of a target."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.devices.latency.base import fit_base
from advisor.devices.latency.model import contradicting, estimate, queries_of_known
from advisor.devices.latency.outliers import agreeing, student
from advisor.devices.latency.posterior import LatencyPosterior, posterior_of
from advisor.devices.latency.table import LatencyTable
from benchmarks.latency_protocols.further import wrong_anchor
from benchmarks.latency_protocols.validation import hide
from tests.devices.test_latency import made_table

SEEN = np.arange(6)


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
    assert set(contradicting(posterior, values)) == {"m2"}
    assert contradicting(posterior, values)["m2"] == pytest.approx(np.exp(complete.values[0, 2]), rel=0.2)
    rest = np.arange(6, 24)
    errors = estimate(posterior, queries_of_known(posterior.base, rest)).mean - complete.values[0, rest]
    assert np.median(np.abs(errors)) < 0.05


def test_right_rows_are_not_doubted(complete: LatencyTable) -> None:
    posterior, values = with_error(complete, 1.0)
    assert contradicting(posterior, values) == {}
    assert posterior.doubts.max() < 0.05


def test_two_measurements_cannot_tell_which_one_is_wrong(complete: LatencyTable) -> None:
    values = complete.values[0, :2] + np.array([0.0, 3.0])
    posterior = posterior_of(fit_base(complete), complete.columns[0], np.arange(2), values, excluded=[0])
    assert np.array_equal(posterior.doubts, [0, 0])


def test_at_most_a_third_is_set_aside() -> None:
    residuals = np.array([[0.0, 0.0, 3.0, 0.0, 30.0, 300.0]])
    assert [list(kept) for _, kept in agreeing(np.zeros(1), residuals, [0.01 * np.eye(6)])] == [[0, 1, 2, 3]]


def test_the_density_is_students() -> None:
    # Of two independent-looking values with the precision of one, and 4 degrees of freedom: scipy.stats.multivariate_t.
    assert student(np.array([0.0]), 0.0, 1)[0] == pytest.approx(np.log(3 / 8))
    assert student(np.array([1.0]), 0.0, 2)[0] == pytest.approx(-np.log(2 * np.pi) - 3 * np.log(1.25))


def test_one_wrong_row_costs_shipped_npus_less_than_a_tenth(table: LatencyTable) -> None:
    """Without weighing, a row that is four times too slow takes the share within 10 % from 0.8 to below 0.35."""

    def pixels(column: object) -> bool:
        return column in chosen

    chosen = [c for c in table.columns if (c.device, c.runtime, c.precision) == ("galaxy-s24", "tflite", "float32")]
    scores = wrong_anchor(table, pixels, 10, (1.0, 4.0), draws=4)
    assert scores["k=10, one is 4x", "advisor"].row()["within_10"] > scores["k=10", "advisor"].row()["within_10"] - 0.1
