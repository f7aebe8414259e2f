"""The run as a value."""

from __future__ import annotations

from pathlib import Path

from advisor.api import Run
from advisor.core.evaluation import Evaluation, Status
from tests.builders import evaluation
from tests.run_folders import candidates, write_run


def test_every_evaluation_is_a_row_with_its_figures_and_its_place_in_the_answer(tmp_path: Path) -> None:
    found = Run(write_run(tmp_path).path).to_frame().set_index("card")
    assert found["role"].to_dict() == {"best": "pick", "fast": "front", "small": "front"}
    assert found.loc["best", ["top1_percent", "latency_median_ms", "size_bytes"]].tolist() == [92, 20, 6_000_000]
    assert found["latency_provenance"].unique().tolist() == ["measured"]


def test_what_failed_is_a_row_with_its_reason_and_without_figures(tmp_path: Path) -> None:
    configuration = evaluation("broken").configuration
    failed = Evaluation(configuration, Status.FAILED, reason="it cannot be converted", stage="convert")
    run = Run(write_run(tmp_path, [*candidates(), failed]).path)
    row = run.to_frame().set_index("card").loc["broken"]
    assert (row["status"], row["stage"], row["reason"]) == ("failed", "convert", "it cannot be converted")
    assert row.isna()[["top1_percent", "latency_p90_ms", "size_bytes"]].all()
    assert (row["role"], row["meets_budget"]) == ("", False)
