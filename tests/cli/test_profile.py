"""``advisor profile`` as a user runs it."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.conftest import Advisor
from tests.measurement import small_models
from tests.requirements import skip_or_fail


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "swish.tflite").write_bytes(small_models.quantized(small_models.swish_net(), tmp_path, 64))
    return "swish.tflite"


@pytest.mark.parametrize("columns", ["80", "120"])
def test_tables_and_advice_fit_the_terminal(advisor: Advisor, model: str, columns: str) -> None:
    said = advisor("profile", model, COLUMNS=columns)
    assert said.code == 0, said.err
    assert "Advice: " in said.out
    assert "HARD_SWISH" in said.out
    assert "of the run time" in said.out
    assert max(map(len, said.out.splitlines())) <= int(columns)
    assert "\x1b" not in said.out


def test_every_form_is_written_into_a_folder(advisor: Advisor, model: str, tmp_path: Path) -> None:
    said = advisor("profile", model, "--out", "found/here")
    assert said.code == 0, said.err
    folder = tmp_path / "found" / "here"
    assert {path.name for path in folder.iterdir()} == {"profile.html", "profile.json"}
    assert json.loads((folder / "profile.json").read_text())["operators"]
    assert "Written: found/here/profile.html" in said.out


def test_the_page_goes_where_it_is_sent(advisor: Advisor, model: str, tmp_path: Path) -> None:
    said = advisor("profile", model, "--html", "c.html", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["advice"]
    assert (tmp_path / "c.html").read_text().startswith("<!doctype html>")


def test_without_xnnpack_every_step_is_builtin(advisor: Advisor, model: str) -> None:
    said = advisor("profile", model, "--no-xnnpack", "--all", "--json")
    assert {row["where"] for row in json.loads(said.out)["operators"]} == {"builtin"}


def test_an_open_shape_is_asked_for_and_taken(advisor: Advisor, tmp_path: Path) -> None:
    (tmp_path / "open.tflite").write_bytes(small_models.classifier(open_shape=True))
    refused = advisor("profile", "open.tflite")
    assert refused.code == 2
    assert "--shape 1,224,224,3" in refused.err
    said = advisor("profile", "open.tflite", "--shape", "1,64,64,3", "--json")
    first = json.loads(said.out)["operators"][0]["node"]
    assert first["outputs"] == ["float32 1x32x32x16"]
    assert first["macs"] == 32 * 32 * 16 * 27


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("absent.tflite",), "error: no model file 'absent.tflite'"),
        (("text.tflite",), "error: text.tflite is not a usable .tflite file"),
        (("crash.tflite",), "error: crash.tflite: the measuring process died"),
        (("custom.tflite",), "error: custom.tflite: Encountered unresolved custom op: Nobody"),
        (("custom.tflite", "--threads", "0"), "error: 0 threads"),
        (("custom.tflite", "--html", "folder"), "error: cannot write 'folder': it is a folder"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(
    advisor: Advisor, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.tflite").write_text("a text, not a model at all")
    (tmp_path / "crash.tflite").write_bytes(small_models.crashing())
    (tmp_path / "custom.tflite").write_bytes(small_models.unknown_operator())
    said = advisor("profile", *arguments)
    assert said.code == 2
    lines = said.err.strip().splitlines()
    assert lines[0].startswith(message)
    assert len(lines) <= 2


def test_accelerators_are_answered_for_without_having_them(advisor: Advisor, model: str, tmp_path: Path) -> None:
    said = advisor("profile", model, "--accelerator", "edgetpu,xnnpack", "--accelerator", "coreml", "--html", "c.html")
    assert said.code == 0, said.err
    assert "edgetpu: Coral Edge TPU runs" in said.out
    assert "not supported: HARD_SWISH is not supported" in said.out
    assert "not measured" in said.out
    assert 'id="accelerators"' in (tmp_path / "c.html").read_text()


def test_accelerators_are_in_the_json_with_their_sources(advisor: Advisor, model: str) -> None:
    said = advisor("profile", model, "--accelerator", "coreml", "--json")
    (told,) = json.loads(said.out)["accelerators"]
    assert (told["accelerator"], told["provenance"], told["taken"], told["worth_it"]) == (
        "coreml",
        "computed",
        0,
        False,
    )
    assert told["sources"]


def test_an_ethos_u_is_estimated_by_its_compiler(advisor: Advisor, model: str, tmp_path: Path) -> None:
    if find_spec("ethosu") is None:
        skip_or_fail("ethos-u-vela is not installed")
    said = advisor("profile", model, "--accelerator", "ethos-u55,ethos-u65-512:shared-sram", "--html", "e.html")
    assert said.code == 0, said.err
    assert "ethos-u55-128: Ethos-U55-128 (shared-sram) runs" in said.out
    assert "estimated by its compiler, not measured" in said.out
    assert "Ethos-U65-512 (shared-sram) runs" in (tmp_path / "e.html").read_text()


def test_an_unknown_accelerator_is_one_line(advisor: Advisor, model: str) -> None:
    said = advisor("profile", model, "--accelerator", "edgtpu")
    assert said.code == 2
    assert said.err.startswith("error: unknown accelerator 'edgtpu' (did you mean 'edgetpu'?)")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    data = small_models.classifier(32)
    (tmp_path / "float.tflite").write_bytes(data)
    (tmp_path / "int8.tflite").write_bytes(small_models.quantized(data, tmp_path, 32))
    (tmp_path / "float.tflite").write_bytes(data)
    return "int8.tflite", "float.tflite"


@pytest.mark.parametrize("columns", ["80", "130"])
def test_against_its_float_origin_it_says_why(advisor: Advisor, pair: tuple[str, str], columns: str) -> None:
    model, origin = pair
    said = advisor("profile", model, "--against", origin, "--mean", "127.5", "--std", "127.5", COLUMNS=columns)
    assert said.code == 0, said.err
    assert "Compared with float.tflite, layer by layer" in said.out
    assert "Verdict: it answers as the float file does on" in said.out
    assert max(map(len, said.out.splitlines())) <= int(columns)


def test_the_diagnosis_is_in_json_and_on_the_page(advisor: Advisor, pair: tuple[str, str], tmp_path: Path) -> None:
    model, origin = pair
    normalised = ("--mean", "127.5", "--std", "127.5")
    said = advisor("profile", model, "--against", origin, *normalised, "--out", "found", "--json")
    assert said.code == 0, said.err
    for document in (said.out, (tmp_path / "found" / "profile.json").read_text()):
        assert json.loads(document)["diagnosis"]["layers"]
    page = (tmp_path / "found" / "profile.html").read_text()
    assert 'id="diagnosis"' in page
    assert page.count('<svg class="drawing"') >= 4


def test_against_without_a_normalisation_asks_for_it(advisor: Advisor, pair: tuple[str, str]) -> None:
    said = advisor("profile", pair[0], "--against", pair[1])
    assert said.code == 2
    assert said.err.startswith("error: float.tflite does not say how its images are normalised")


def test_calibration_images_belong_to_against(advisor: Advisor, model: str) -> None:
    said = advisor("profile", model, "--calibration", "photos")
    assert said.code == 2
    assert "--against" in said.err
