"""``advisor benchmark`` as a user runs it. ``advisor profile`` as a user runs it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.documents import problems
from tests.makers.commands import Advisor, ended, refused
from tests.measurement import small_models
from tests.tables import read_table

CASES = read_table(__file__, "wrong_uses.yaml")

FAST = ("--effort", "search", "--force")


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "small.tflite").write_bytes(small_models.classifier(side=8))
    return "small.tflite"


def test_the_table_has_units_and_a_verdict(advisor: Advisor, model: str, done_once: Callable[..., None]) -> None:
    done_once("benchmark")
    said = ended(advisor("benchmark", model, "--threads", "1,2", *FAST, COLUMNS="80"))
    assert ("median ms" in said.out, "peak MB" in said.out) == (True, True)
    assert any(verdict in said.out for verdict in ("stable", "unstable", "contended"))
    assert said.out.rstrip().endswith("advisor profile small.tflite")
    assert max(map(len, said.out.splitlines())) <= 80
    assert "\x1b" not in said.out
    without_unicode = ended(advisor("benchmark", model, *FAST, PYTHONIOENCODING="ascii"))
    assert without_unicode.out.isascii()
    assert "median ms" in without_unicode.out
    as_json = ended(advisor("benchmark", model, "--json", *FAST))
    data = as_json.document
    assert data["files"][0]["timing"]["results"][0]["verdict"] in ("stable", "unstable", "contended")
    assert data["files"][0]["pipeline"]["pipeline_ms"] > 0
    assert problems("benchmark", data) == []
    assert as_json.err == ""


def test_files_are_held_against_the_first_one_that_fails_is_a_row_and_no_line_is_longer_than_the_terminal(
    advisor: Advisor, model: str, tmp_path: Path, done_once: Callable[..., None]
) -> None:
    done_once("benchmark")
    (tmp_path / "larger.tflite").write_bytes(small_models.swish_net(side=32))
    (tmp_path / "crash.tflite").write_bytes(small_models.crashing())
    for columns in (60, 80):
        said = ended(advisor("benchmark", model, "larger.tflite", "crash.tflite", *FAST, COLUMNS=str(columns)), 3)
        assert max(map(len, said.out.splitlines())) <= columns
        assert "…" not in said.out
        assert "crash.tflite: the measuring process died" in " ".join(said.out.split())
    for words in ("A  small.tflite", "B  larger.tflite", "times the first", "slower", "failed"):
        assert words in said.out


@pytest.mark.parametrize(("command", "message"), CASES.items())
@pytest.mark.usefixtures("model")
def test_a_wrong_use_is_one_line_and_exit_code_2(advisor: Advisor, tmp_path: Path, command: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.tflite").write_text("a text, not a model at all")
    (tmp_path / "crash.tflite").write_bytes(small_models.crashing())
    (tmp_path / "custom.tflite").write_bytes(small_models.unknown_operator())
    (tmp_path / "open.tflite").write_bytes(small_models.classifier(open_shape=True))
    quick = FAST if command.startswith("benchmark") and "--effort" not in command else ()
    said = ended(advisor(*command.split(), *quick), 2)
    assert said.out == ""
    lines = said.err.strip().splitlines()
    assert lines[0].startswith("error: ")
    assert message in lines[0]
    assert lines[1].startswith("hint: ")
    assert len(lines) == 2


def test_a_device_that_is_not_at_hand_gets_a_prediction_that_says_so(advisor: Advisor, model: str) -> None:
    said = ended(advisor("benchmark", model, "--device", "raspberry-pi-4:ncnn-cpu-x4", COLUMNS="80"))
    assert "predicted from measurements of other models" in said.out
    assert "raspberry-pi-4:ncnn-cpu-x4: the latencies are those of ncnn" in said.out
    assert "take them as a guide" in " ".join(said.out.split())
    assert max(map(len, said.out.splitlines())) <= 80
    found = advisor("benchmark", model, "--device", "pixel-4", "--json").document
    assert not any("guide" in note for note in found["notes"])
    assert problems("device_benchmark", found) == []
    row = found["rows"][0]
    assert (row["status"], row["latency"]["provenance"]) == ("predicted", "predicted")


def test_a_form_that_the_device_does_not_take_is_exit_code_2(advisor: Advisor, model: str) -> None:
    said = ended(advisor("benchmark", model, "--device", "coral-usb"), 2)
    assert "tflite-tpu takes int8, not float32" in said.out
    assert "Coral Edge TPU runs" in said.out


@pytest.fixture
def model_of_profile(tmp_path: Path, swish_model: Path) -> str:
    shutil.copy(swish_model, tmp_path / "swish.tflite")
    return "swish.tflite"


def test_tables_and_advice_fit_the_terminal_and_every_form_goes_where_it_is_sent(
    advisor: Advisor, model_of_profile: str, tmp_path: Path, done_once: Callable[..., None]
) -> None:
    done_once("profile")
    said = ended(advisor("profile", model_of_profile, COLUMNS="80"))
    assert all(words in said.out for words in ("Advice: ", "HARD_SWISH", "of the time"))
    assert max(map(len, said.out.splitlines())) <= 80
    assert "\x1b" not in said.out
    said = ended(advisor("profile", model_of_profile, "--out", "found/here"))
    folder = tmp_path / "found" / "here"
    assert {path.name for path in folder.iterdir()} == {"profile.html", "profile.json"}
    assert json.loads((folder / "profile.json").read_text())["operators"]
    assert "Written: found/here/profile.html" in said.out
    said = ended(advisor("profile", model_of_profile, "--html", "c.html", "--json"))
    assert said.document["advice"]
    assert (tmp_path / "c.html").read_text().startswith("<!doctype html>")


def test_an_open_shape_is_asked_for_and_without_xnnpack_every_step_is_builtin(advisor: Advisor, tmp_path: Path) -> None:
    (tmp_path / "open.tflite").write_bytes(small_models.classifier(open_shape=True))
    refused(advisor("profile", "open.tflite"), "--shape 1,224,224,3")
    said = advisor("profile", "open.tflite", "--shape", "1,64,64,3", "--no-xnnpack", "--all", "--json")
    assert {row["where"] for row in said.document["operators"]} == {"builtin"}
    first = said.document["operators"][0]["node"]
    assert first["outputs"] == ["float32 1x32x32x16"]
    assert first["macs"] == 32 * 32 * 16 * 27


def test_accelerators_are_answered_for_without_having_them_also_in_the_json_with_their_sources(
    advisor: Advisor, model_of_profile: str, tmp_path: Path, done_once: Callable[..., None]
) -> None:
    done_once("profile")
    asked = ("profile", model_of_profile, "--accelerator", "edgetpu,xnnpack", "--accelerator", "coreml")
    said = ended(advisor(*asked, "--html", "c.html"))
    assert "edgetpu: Coral Edge TPU runs" in said.out
    assert "not supported: HARD_SWISH is not supported" in said.out
    assert "not measured" in said.out
    assert 'id="accelerators"' in (tmp_path / "c.html").read_text()
    (told,) = (one for one in advisor(*asked, "--json").document["accelerators"] if one["accelerator"] == "coreml")
    assert (told["provenance"], told["taken"], told["worth_it"]) == ("computed", 0, False)
    assert told["sources"]


def test_against_its_float_origin_it_says_why_also_in_json_and_on_the_page(
    advisor: Advisor, float_model: Path, int8_model: Path, tmp_path: Path, done_once: Callable[..., None]
) -> None:
    done_once("profile", "diagnose")
    shutil.copy(int8_model, tmp_path / "int8.tflite")
    shutil.copy(float_model, tmp_path / "float.tflite")
    asked = ("profile", "int8.tflite", "--against", "float.tflite", "--mean", "127.5", "--std", "127.5")
    said = ended(advisor(*asked, COLUMNS="80"))
    assert "Compared with float.tflite, layer by layer" in said.out
    assert "Verdict: it answers as the float file does on" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    said = ended(advisor(*asked, "--out", "found", "--json"))
    for document in (said.out, (tmp_path / "found" / "profile.json").read_text()):
        assert json.loads(document)["diagnosis"]["layers"]
    page = (tmp_path / "found" / "profile.html").read_text()
    assert 'id="diagnosis"' in page
    assert page.count('<svg class="drawing"') >= 4
