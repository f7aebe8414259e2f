"""``advisor plan``: what a search would do and what it would take; nothing is spent."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import advisor as package
from advisor.catalog.catalogue import load_catalogue
from advisor.cli.main import app
from tests.cli.conftest import Advisor
from tests.documents import problems

CARD = "mobilenet_v2_1.0_224"


def planned(advisor: Advisor, *options: str) -> dict[str, Any]:
    said = advisor("plan", *options, "--json")
    assert said.code == 0, said.err
    document: dict[str, Any] = json.loads(said.out)
    assert problems("plan", document) == []
    return document


def test_every_configuration_has_latency_size_accuracy_and_price(advisor: Advisor) -> None:
    plan = planned(advisor, "--candidates", CARD, "--threads", "1,2", "--budget", "50ms")
    assert plan["configurations"] == len(plan["candidates"]) == 10
    for row in plan["candidates"]:
        assert row["latency"]["value"] > 0
        assert row["latency"]["source"].startswith("rough")
        assert row["meets_latency_budget"] is None
        assert row["size"]["value"] > 0
        assert row["accuracy"]["value"] == pytest.approx(71.8, abs=2)
        assert row["price_s"] > 0
    assert plan["price_s"] > plan["cards"][0]["first_result_s"] > 0


def test_latencies_of_another_runtime_are_a_guide(advisor: Advisor) -> None:
    device = "raspberry-pi-4:ncnn-cpu-x4"
    remark = f"{device}: the latencies are those of ncnn, which does not run .tflite files; take them as a guide"
    assert planned(advisor, "--candidates", CARD, "--device", device)["remarks"] == [remark]
    assert remark in advisor("plan", "--candidates", CARD, "--device", device).out
    assert planned(advisor, "--candidates", CARD, "--device", "pixel-4")["remarks"] == []


def test_nothing_is_spent(advisor: Advisor, tmp_path: Path) -> None:
    assert advisor("plan", "--candidates", CARD).code == 0
    assert not (tmp_path / "runs").exists()
    assert not [name for name in ("weights", "artifacts") if (tmp_path / "cache" / name).exists()]


def test_no_connection_is_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(socket.socket, "connect", refuse)
    view = package.plan(budget="50ms")
    assert len(view.cards) == 12
    assert not any(card.on_disk for card in view.cards)


def test_weights_to_download_are_counted_as_far_as_their_size_is_known(advisor: Advisor) -> None:
    plan = planned(advisor, "--candidates", CARD)
    known = load_catalogue()[CARD].weights[0].file.size_bytes
    assert plan["download_bytes"] == plan["cards"][0]["download_bytes"] == known
    assert "to download" in advisor("plan", "--candidates", CARD).out


def test_offline_leaves_out_what_is_not_here(advisor: Advisor, photos: Path) -> None:
    said = advisor("plan", "--candidates", CARD, "--offline", "--data", str(photos))
    assert said.code == 2
    assert "--mirror" in said.err


def test_a_file_that_cannot_meet_the_size_budget_is_filtered_with_its_reason(advisor: Advisor) -> None:
    plan = planned(advisor, "--candidates", CARD, "--size-budget", "5MB", "--threads", "1")
    filtered = {row["compression"]: row["filtered"] for row in plan["candidates"]}
    assert filtered["float32"] == "its file has at least 13.3 MB, more than the size budget 5.0 MB"
    assert filtered["int8"] == ""


def test_a_head_of_few_classes_may_be_what_makes_the_file_small_enough(advisor: Advisor, photos: Path) -> None:
    options = ("--candidates", "mobilenet_v1_0.25_224", "--size-budget", "1MB", "--threads", "1")
    form = ("--compressions", "float32,int8")
    without = planned(advisor, *options, *form)["candidates"]
    with_head = planned(advisor, *options, *form, "--data", str(photos), "--training", "head")["candidates"]
    assert [bool(row["filtered"]) for row in without] == [True, False]
    assert [bool(row["filtered"]) for row in with_head] == [False, False]


def test_the_time_limit_says_how_many_are_reached(advisor: Advisor) -> None:
    plan = planned(advisor, "--candidates", "mobilenet_v2", "--time-limit", "60s")
    assert 0 < plan["configurations_reached"] < plan["configurations"]
    assert plan["price_under_limit_s"] == 60


@pytest.mark.parametrize("command", ["plan", "search"])
def test_a_time_limit_that_is_too_short_for_any_candidate_is_refused_by_both(
    advisor: Advisor, tmp_path: Path, command: str
) -> None:
    said = advisor(command, "--candidates", CARD, "--time-limit", "2s")
    assert said.code == 2
    assert f"even the candidate that is quickest to evaluate, {CARD}, takes about" in said.err
    assert "give at least --time-limit" in said.err
    assert not (tmp_path / "runs").exists()


def test_more_images_cost_more(advisor: Advisor, photos: Path) -> None:
    bare = planned(advisor, "--candidates", CARD)
    trained = planned(advisor, "--candidates", CARD, "--data", str(photos))
    assert trained["pictures"] == 20
    assert trained["price_s"] > bare["price_s"]


def test_the_split_is_shown_before_anything_is_spent(advisor: Advisor, photos: Path) -> None:
    options = ("--candidates", CARD, "--data", str(photos))
    split = planned(advisor, *options)["split"]
    assert split["grouping"] == {"source": "", "groups": 0, "largest": 0}
    assert set(split["images"]) == {"train", "validation", "holdout"}
    assert split["missing"] == {"train": [], "validation": [], "holdout": []}
    shown = " ".join(advisor("plan", *options).out.split())
    assert f"Split: {split['images']['train']} images for training" in shown
    assert "Groups: none found" in shown


def test_the_plan_of_the_default_training_says_what_fine_tuning_takes_and_how_to_leave_it_out(
    advisor: Advisor, photos: Path
) -> None:
    options = ("--candidates", CARD, "--data", str(photos))
    heads, tuned = planned(advisor, *options, "--training", "head"), planned(advisor, *options)
    assert heads["fine_tuning_s"] == 0
    assert tuned["fine_tuning_s"] == pytest.approx(tuned["price_s"] - heads["price_s"], abs=0.2)
    said = " ".join(advisor("plan", *options).out.split())
    assert "Fine-tuning: about" in said
    assert "--training head leaves it out" in said


def test_the_table_says_what_it_takes(advisor: Advisor) -> None:
    said = advisor("plan", "--candidates", CARD, "--budget", "50ms", "--size-budget", "5MB")
    assert said.code == 0
    for words in (CARD, "float32", "Cost: about", "Filtered: ", "First result after about", "Nothing was spent"):
        assert words in said.out


def test_search_and_plan_take_the_same_options() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    plan, search = ({option.name for option in commands[name].params} for name in ("plan", "search"))
    assert plan == search - {"resume", "extend", "verbose", "log_to"}
    assert {"task", "budget", "data", "candidates", "time_limit", "storage", "stop_below"} <= plan


def test_an_option_without_its_unit_is_refused_as_in_search() -> None:
    said = CliRunner().invoke(app, ["plan", "--budget", "50"])
    assert said.exception is not None
    assert "has no unit" in str(said.exception)


def test_the_configurations_are_a_table_from_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    found = package.plan(budget="50ms", candidates=[CARD], threads=[1, 2]).to_frame()
    assert list(found["card"].unique()) == [CARD]
    assert sorted(found["threads"].unique()) == [1, 2]
    assert (found["latency_median_ms"] > 0).all()
    assert found["skipped_because"].isna().all()
