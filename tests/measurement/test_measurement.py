"""The benchmark of the measurements: its steps on small files."""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.measurement.latency.timing import measure
from benchmarks import measurement, tables
from benchmarks.measurement import QUICK, _judged, rankings, spread, tool_median_ms

pytestmark = pytest.mark.integration


def test_spread_is_the_largest_distance_from_the_median() -> None:
    assert spread([10.0, 10.2, 9.0]) == pytest.approx(0.1)
    assert spread([3.0]) == 0


def test_the_runtimes_own_tool_is_read(float_model: Path) -> None:
    assert tool_median_ms(float_model, 5) >= 0


def test_artefacts_that_differ_much_keep_their_ranking_beside_busy_processes(
    float_model: Path, swish_model: Path
) -> None:
    rows = rankings([float_model, swish_model], QUICK)
    taus = [row for row in rows if "Kendall" in str(row[0])]
    assert [row[2] for row in taus] == ["1.000", "1.000"]
    verdicts = next(row for row in rows if row[0] == "verdicts beside 3 busy processes")
    assert verdicts[2:] == ("2 contended", "yes")


@pytest.mark.parametrize(("contended", "answer"), [(False, "yes"), (True, "not judged: the machine was not idle")])
def test_what_is_promised_of_an_idle_machine_is_judged_on_an_idle_machine_alone(
    float_model: Path, contended: bool, answer: str
) -> None:
    row = replace(measure(float_model, [1], "load", retry=False).results[0], contended=contended)
    assert _judged(True, [row]) == answer


@pytest.mark.slow
def test_every_figure_is_kept(
    float_model: Path, swish_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    measurement.main(["--quick", "--models", str(swish_model), str(float_model)])
    text = (tmp_path / "measurement-quick.md").read_text()
    for figure in ("largest distance", "litert-benchmark", "Kendall's tau", "profiling overhead", "advisor profile"):
        assert figure in text
