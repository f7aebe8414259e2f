"""The benchmark of the measurements: its steps on small files."""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.measurement import measure
from benchmarks import measurement, tables
from benchmarks.measurement import QUICK, _judged, rankings, spread, tool_median_ms

pytestmark = pytest.mark.integration


def test_spread_is_the_largest_distance_from_the_median() -> None:
    assert spread([10.0, 10.2, 9.0]) == pytest.approx(0.1)
    assert spread([3.0]) == 0


def test_the_runtimes_own_tool_is_read(float_model: Path) -> None:
    assert tool_median_ms(float_model, 5) >= 0


@pytest.mark.slow
def test_artefacts_that_differ_much_keep_their_ranking_beside_busy_processes(
    float_model: Path, swish_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "LOADS", (3,))
    ranking, verdicts = rankings([float_model, swish_model], replace(QUICK, ranking_effort="survey"))
    assert "Kendall" in str(ranking[0])
    assert ranking[2] == "1.000"
    assert (verdicts[0], *verdicts[2:]) == ("verdicts beside 3 busy processes", "2 contended", "yes")


def test_what_is_promised_of_an_idle_machine_is_judged_on_an_idle_machine_alone(float_model: Path) -> None:
    (found,) = measure(float_model, [1], "load", retry=False).results
    assert _judged(True, [replace(found, contended=False)]) == "yes"
    assert _judged(True, [replace(found, contended=True)]) == "not judged: the machine was not idle"


@pytest.mark.slow
def test_figures_stay(float_model: Path, swish_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    measurement.main(["--quick", "--models", str(swish_model), str(float_model)])
    text = (tmp_path / "measurement-quick.md").read_text()
    for figure in ("largest distance", "litert-benchmark", "Kendall's tau", "profiling overhead", "advisor profile"):
        assert figure in text
