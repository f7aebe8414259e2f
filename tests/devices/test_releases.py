"""Releases of a runtime: how far apart they are, and what one tells about the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor.devices.latency.base import fit_base
from advisor.devices.latency.features import ModelFeatures
from advisor.devices.latency.model import estimate, queries_of, queries_of_known
from advisor.devices.latency.posterior import posterior_of
from advisor.devices.latency.references import UNSTATED, distance
from advisor.devices.latency.releases import change
from advisor.devices.latency.table import LatencyTable
from benchmarks.latency_protocols.validation import hide
from tests.devices.test_latency import made_table

NONE = np.array([], dtype=np.intp)
FASTER = np.linspace(-0.5, -0.1, 24)
"""What the later release gains on each network (log)."""


@pytest.fixture(scope="module")
def releases() -> LatencyTable:
    """Twelve devices with an early release; the first eight with a later one, too. They are the last columns."""
    table = made_table()
    early = tuple(replace(c, version="1.20.0") for c in table.columns)
    late = tuple(replace(c, target="cpu-late", version="1.25.0") for c in table.columns[:8])
    values = fit_base(table).filled
    return replace(table, columns=(*early, *late), values=np.vstack([values, values[:8] + FASTER]))


@pytest.mark.parametrize(
    ("one", "other", "steps"),
    [
        ("1.23.0+qairt2.37.1", "1.30.0+qairt2.50.0", 13),
        ("2.17.0+qairt2.42.0", "qairt2.50.0", 8),
        ("2.17.0", "2.17.1", 0),
        ("1.9.0", "2.1.0", 10),
        ("2.17.0", "", UNSTATED),
        ("unstated", "2.17.0", UNSTATED),
        ("", "", 0),
    ],
)
def test_the_distance_is_in_minor_releases(one: str, other: str, steps: int) -> None:
    assert distance(one, other) == distance(other, one) == steps


def test_further_releases_change_more(releases: LatencyTable) -> None:
    assert 0 < change(releases, "tflite", 1) < change(releases, "tflite", 5) < change(releases, "tflite", 20)
    assert change(releases, "tflite", 0) == 0


def test_the_next_release_is_predicted_network_by_network(releases: LatencyTable) -> None:
    index = len(releases.columns) - 1
    shown, _ = hide(releases, [index])
    posterior = posterior_of(fit_base(shown), releases.columns[index], NONE, np.zeros(0))
    found = estimate(posterior, queries_of_known(posterior.base, np.arange(24)))
    assert posterior.reference == "release"
    assert np.abs(found.mean - releases.values[index]).max() < 0.05
    assert np.abs(releases.values[7] - releases.values[index]).max() > 0.4


def test_a_release_that_nobody_ran_is_the_last_one_with_a_wide_interval(releases: LatencyTable) -> None:
    base = fit_base(releases)
    column = releases.columns[-1]
    deviations = []
    for version in ("1.26.0", "1.45.0"):
        later = replace(column, target="cpu-later", version=version)
        posterior = posterior_of(base, later, NONE, np.zeros(0))
        found = estimate(posterior, queries_of_known(posterior.base, np.arange(24)))
        assert np.abs(found.mean - releases.values[-1]).max() < 0.1
        deviations.append(float(np.median(found.deviation)))
    assert deviations[0] < deviations[1]


def test_a_network_that_nobody_measured_gets_the_ratio_of_similar_ones(releases: LatencyTable) -> None:
    index = len(releases.columns) - 1
    model = ModelFeatures("new", "f1", float(np.exp(20)), float(np.exp(15)), 224, 80)
    shown, _ = hide(releases, [index])
    base = fit_base(shown)
    late, early = (
        estimate(posterior, queries_of(posterior.base, [model])).mean[0]
        for posterior in (
            posterior_of(base, releases.columns[index], NONE, np.zeros(0)),
            posterior_of(base, releases.columns[7], np.arange(24), releases.values[7]),
        )
    )
    assert FASTER.min() < late - early < FASTER.max()
