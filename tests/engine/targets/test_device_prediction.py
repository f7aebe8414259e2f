"""What is known of a card on devices that are not at hand, before anything is trained."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ai_edge_litert import schema_py_generated as schema

from advisor.catalog import Catalogue, MemberFile, WeightSource
from advisor.core import AmbiguousInput, Limits, Provenance, Quantity
from advisor.devices import ConnectionSettings
from advisor.engine import DevicePredictor, resolve
from advisor.engine._pipeline.rule import Known
from advisor.engine._targets.delegated_nodes import list_node_shares
from advisor.engine._targets.device_prediction import CardPredictor, LatencyEstimate
from advisor.engine._targets.processor_comparison import describe_units
from advisor.engine._targets.processors import choose_processors
from advisor.engine._targets.target_devices import select_targets
from tests.builders import configuration, must_fail, present, write_file
from tests.measurement.small_models import scaling
from tests.tables import with_cases

SMALL, LARGE = "mobilenet_v1_0.25_224", "inception_v3_299"
HERE = LatencyEstimate(Quantity(1.0, "ms", Provenance.ESTIMATED), 1.0)


@pytest.fixture(scope="module", autouse=True)
def one_predictor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of the module's own, and one predictor for all: fitting it takes half a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADVISOR_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
        predictor.cache_clear()


@cache
def predictor() -> DevicePredictor:
    return DevicePredictor()


@cache
def outlook(device: str, must_run_on: tuple[str, ...] = ()) -> CardPredictor:
    question = resolve({"budget": "50ms", "device": device, "must_run_on": must_run_on}).question
    return CardPredictor(select_targets(question), Catalogue.load(), predictor())


def reason(found: CardPredictor, card: str, recipe: str = "float32", must_run_on: tuple[str, ...] = ()) -> str:
    known = Known(Limits(latency_ms=50.0, must_run_on=must_run_on))
    return found.explain_no_training(configuration(card, recipe), known)


def test_a_name_of_several_phones_is_a_question_that_keeps_the_other_devices() -> None:
    question = resolve({"budget": "50ms", "device": "pixel-8,Galaxy S21:tflite-cpu-x1"}).question
    asked = must_fail(AmbiguousInput, "--device: 'Galaxy S21' may be several phones", select_targets, question)
    devices = [reading.options["device"] for reading in asked.readings]
    assert devices == [f"pixel-8,galaxy-s21-{soc}:tflite-cpu-x1" for soc in ("exynos-2100", "snapdragon-888")]
    for device in devices:
        select_targets(resolve({"budget": "50ms", "device": device}).question)


def test_a_chance_below_five_percent_on_every_device_is_not_worth_training_unless_one_could_take_it() -> None:
    assert "sure to meet 50.0 ms: not trained" in reason(outlook(device="raspberry-pi-4"), LARGE)
    for name, card in (("raspberry-pi-4", SMALL), ("raspberry-pi-4,galaxy-s24", LARGE), ("host,raspberry-pi-4", LARGE)):
        assert reason(outlook(device=name), card) == ""
    board = ("raspberry-pi-4",)
    assert "on raspberry-pi-4" in reason(outlook(device="galaxy-s24", must_run_on=board), LARGE, must_run_on=board)


def test_a_device_like_no_other_meets_no_budget_unless_it_is_connected() -> None:
    found = outlook(device="hailo-8")
    said = reason(found, SMALL, "int8")
    assert said.startswith("hailo-8: no comparable device: measure two networks on it, such as ")
    assert said.endswith(": not trained")
    assert outlook(device="hailo-8,coral-usb").worst_latency(Catalogue.load()[SMALL], "int8", 50.0, HERE).chance is None
    (device,) = found.targets.devices
    connected = replace(device, profile=replace(device.profile, connection=ConnectionSettings("ssh", "device")))
    assert reason(replace(found, targets=replace(found.targets, devices=(connected,))), SMALL, "int8") == ""


def test_a_users_own_file_is_predicted_by_its_operators(tmp_path: Path) -> None:
    path = write_file(tmp_path / "own.tflite", scaling(32, 4, (schema.BuiltinOperator.ATAN2, 1.0)))
    weights = (WeightSource("file", "tflite", "whole", MemberFile(str(path))),)
    card = replace(Catalogue.load()[SMALL], architecture="tflite_file", name="own", weights=weights)
    found = replace(outlook(device="raspberry-pi-4"), cards={"own": card})
    assert "no measured network has its operators ATAN2, which may take" in reason(found, "own")


@pytest.mark.parametrize("recipe", ["float32", "float16", "weight_int8", "dynamic_int8"])
def test_a_form_that_the_device_does_not_take_is_said_and_has_no_latency(recipe: str) -> None:
    found = outlook(device="coral-usb")
    assert "coral-usb" in reason(found, SMALL, recipe)
    assert reason(found, SMALL, "int8") == ""
    assert found.worst_latency(Catalogue.load()[SMALL], recipe, 50.0, HERE) == LatencyEstimate(None, None)


def test_what_to_expect_is_the_slowest_device_and_the_least_chance() -> None:
    card = Catalogue.load()[LARGE]
    devices = ("raspberry-pi-4,galaxy-s24", "raspberry-pi-4", "host,raspberry-pi-4")
    both, board, here = (outlook(device=names).worst_latency(card, "float32", 50.0, HERE) for names in devices)
    assert both == board == here
    assert present(both.chance) < 0.05


@with_cases
def test_the_nodes_on_an_accelerator_are_counted_before_a_file_is_made(
    card: str, recipe: str, device: str, counts: list[list[Any]]
) -> None:
    targets = select_targets(resolve({"budget": "50ms", "device": device}).question)
    shares = list_node_shares(Catalogue.load()[card], recipe, targets.devices)
    assert [[share.accelerator.split(" ")[0], share.delegated, share.nodes] for share in shares] == counts
    assert all(bool(share.sources) is bool(share.accelerator) for share in shares)
    assert all(bool(share.reason) is not share.runs_whole for share in shares)


@with_cases
def test_a_plan_chooses_the_processor_of_each_network_unless_the_question_names_one(
    device: str, card: str, units: dict[str, str], words: list[str]
) -> None:
    plan = (outlook(device=device), [Catalogue.load()[card]], ["float32", "int8"])
    choices = choose_processors(*plan, 50.0)
    assert {recipe: choice.unit for (_, recipe), (choice,) in choices.items()} == units
    assert all(choice.latency is not None for (choice,) in choices.values())
    sentence = " ".join([*describe_units(*plan, choices), *(choice.reason for (choice,) in choices.values())])
    assert (bool(sentence), [word for word in words if word not in sentence]) == (bool(words), [])
