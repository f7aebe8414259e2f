"""What files answer to a photograph, in a real child process."""

import io
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from advisor.core import (
    AdvisorError,
    ConfidenceFacts,
    Guarantees,
    Interval,
    Shares,
    StageError,
    Threshold,
    UsageError,
    install_extra,
)
from advisor.datasets import _image_files as images
from advisor.reporting import Answerer, PhotographAnswer, predict
from advisor.reporting._bundle import photograph as exporting
from advisor.reporting._bundle.photograph import predictions
from advisor.store import RunFolder
from tests.builders import must_fail
from tests.integrations.serve.client import Client
from tests.integrations.serve.shown import COLOURS, keep_file, photograph, two_cells
from tests.makers.commands import Advisor, called, ended
from tests.makers.imports import InThisProcess
from tests.measurement import small_models
from tests.run_folders import write_run

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("starts_processes")]


@pytest.fixture(scope="module")
def answerer() -> Iterator[Answerer]:
    with Answerer() as answerer:
        yield answerer


def test_both_forms_answer(answerer: Answerer, colours: RunFolder) -> None:
    found = answerer.answer(colours.path, photograph((10, 10, 250)))
    assert (found.classes, found.agree) == (True, True)
    assert [answer.form for answer in found.forms] == ["float32", "int8"]
    assert [answer.picked for answer in found.forms] == [False, True]
    for answer in found.forms:
        assert answer.found[0].label == "<b>blue"
        assert answer.found[0].score > max(0.5, answer.least)


@pytest.mark.parametrize("kind", ["detectors", "counters"])
def test_both_forms_find_the_objects(answerer: Answerer, kind: str, request: pytest.FixtureRequest) -> None:
    found = answerer.answer(request.getfixturevalue(kind).path, two_cells())
    assert (found.classes, found.agree, found.width, found.height) == (False, True, 128, 64)
    assert [answer.form for answer in found.forms] == ["float32", "int8"]
    for answer in found.forms:
        assert {label: len(scores) for label, scores in answer.by_class.items()} == {"red": 1, "blue": 1}
        assert answer.least == 0.6
        for each, (top, left) in zip(sorted(answer.found, key=lambda one: one.box), [(0, 0), (0.5, 0.5)], strict=True):
            if kind == "detectors":
                assert each.box == pytest.approx((top, left, top + 0.25, left + 0.25), abs=0.03)
            else:
                assert each.box == pytest.approx((top + 0.125, left + 0.125) * 2)


def test_a_photograph_is_shown_upright(answerer: Answerer, detectors: RunFolder) -> None:
    turned, file = Image.open(io.BytesIO(two_cells())).transpose(Image.Transpose.ROTATE_90), io.BytesIO()
    turned.getexif()[0x0112] = 6
    turned.save(file, "PNG", exif=turned.getexif())
    found = answerer.answer(detectors.path, file.getvalue())
    assert (found.width, found.height) == (128, 64)
    assert min(each.box for each in found.forms[0].found) == pytest.approx((0, 0, 0.25, 0.25), abs=0.03)


def test_the_command_answers_what_it_can_and_ends_with_3_and_json_has_errors_in_their_rows(
    colours: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "blue.png").write_bytes(photograph((10, 10, 250)))
    (tmp_path / "note.txt").write_text("no image")
    asked = ("predict", str(colours.path), "blue.png", "note.txt")
    blue, note = ended(called(asked, tmp_path, dict(os.environ)), 3).out.splitlines()
    assert blue.startswith("blue.png: <b>blue (<b>blue ")
    assert note.startswith("note.txt: the photograph cannot be used: not a JPEG")
    monkeypatch.setattr(exporting, "ChildPool", InThisProcess)
    found, refused = ended(called((*asked, "--json"), tmp_path, dict(os.environ)), 3).document["predictions"]
    assert (found["photograph"], found["answer"], found["least"]) == ("blue.png", "<b>blue", 0.0)
    assert found["found"][0]["score"] > 0.5
    assert found["error"] == ""
    assert "not a JPEG" in refused["error"]
    assert refused["found"] == []


def test_a_photograph_that_cannot_be_read_says_why(
    colours: RunFolder, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone, cut, pipe = (tmp_path / name for name in ("phone.heic", "cut.jpg", "pipe.jpg"))
    shutil.copy(project / "tests" / "datasets" / "two_colours.heic", phone)
    Image.effect_noise((64, 64), 90).save(cut)
    cut.write_bytes(cut.read_bytes()[:-900])
    os.mkfifo(pipe)
    monkeypatch.setattr(images, "list_formats", lambda: images.FORMATS)  # as without the extra
    why = [each.error for each in predictions(str(colours.path), [str(phone), str(cut), str(pipe)], "")]
    assert install_extra("heic") in why[0]
    assert "image file is truncated" in why[1]
    assert "not a regular file" in why[2]


def test_an_answer_below_the_threshold_is_unknown(colours: RunFolder, tmp_path: Path) -> None:
    (row,) = (each for each in colours.evaluations() if each.configuration.compression == "int8")
    none, asked = Interval(0.0, 0.0, 0.0), Guarantees(Shares(0.95))
    sure = ConfidenceFacts(1.0, none, none, none, none, threshold=Threshold(0.999, None, 0, 10), wanted=asked)
    keep_file(colours, "int8", (colours.path / row.artefact).read_bytes(), replace(row.answers, confidence=sure))
    grey = tmp_path / "grey.png"
    grey.write_bytes(photograph((128, 128, 129)))
    (found,) = predictions(str(colours.path), [str(grey)], "")
    assert (found.answer, found.least) == ("unknown", 0.999)


def assert_drawn(found: PhotographAnswer, plain: Path, copy: Path) -> None:
    """Check that both cells were counted, and marked on a copy of the photograph."""
    assert sorted(found.answer.split(", ")) == ["1 blue", "1 red"]
    with Image.open(copy) as drawn, Image.open(plain) as cells:
        assert drawn.size == cells.size
        assert list(drawn.getdata()) != list(cells.convert("RGB").getdata())


def test_objects_are_counted_drawn_and_100_mp_refused(detectors: RunFolder, tmp_path: Path, advisor: Advisor) -> None:
    cells, large, to = tmp_path / "cells.png", tmp_path / "large.png", tmp_path / "drawn"
    cells.write_bytes(two_cells())
    Image.new("1", (10_000, 10_000)).save(large)
    found, refused = predict(detectors.path, [cells, large], to)
    assert_drawn(found, cells, to / "001-cells.png")
    assert "above the limit of 80 megapixels" in refused.error
    must_fail(UsageError, r"already contains 001-cells\.png", predict, detectors.path, [cells], to)
    assert (
        "wrote 1 copy to again" in advisor("predict", str(detectors.path), str(cells), str(large), "--to", "again").err
    )
    advisor("predict", str(detectors.path), str(large), "--to", "nothing")
    assert not (tmp_path / "nothing").exists()


def test_centres_are_counted_and_drawn(counters: RunFolder, tmp_path: Path) -> None:
    cells = tmp_path / "cells.png"
    cells.write_bytes(two_cells())
    (found,) = predictions(str(counters.path), [str(cells)], str(tmp_path))
    assert_drawn(found, cells, tmp_path / "001-cells.png")


def test_a_class_cannot_be_drawn(colours: RunFolder, tmp_path: Path) -> None:
    must_fail(UsageError, "no objects to draw", predict, colours.path, [tmp_path / "any.png"], tmp_path / "drawn")
    assert not (tmp_path / "drawn").exists()


def test_a_changed_file_and_a_run_without_an_answer_are_refused(answerer: Answerer, colours: RunFolder) -> None:
    (colours.artefacts / "colours-int8.tflite").write_bytes(b"other")
    must_fail(UsageError, "has changed", answerer.answer, colours.path, photograph())
    empty = write_run(colours.path.parent, [], name="empty")
    with pytest.raises((UsageError, StageError), match="no candidate"):
        answerer.answer(empty.path, photograph())


def test_a_file_that_crashes_leaves_the_server_alone(answerer: Answerer, colours: RunFolder) -> None:
    keep_file(colours, "int8", COLOURS.write_into(small_models.crashing()))
    must_fail(AdvisorError, "", answerer.answer, colours.path, photograph())
    keep_file(colours, "int8", COLOURS.write_into(small_models.brightness()))
    assert answerer.answer(colours.path, photograph()).forms[1].found[0].label == "red"


def test_answers_are_bars_with_escaped_names_or_objects_over_the_photograph_with_their_numbers(
    client: Client, colours: RunFolder, detectors: RunFolder, counters: RunFolder
) -> None:
    def said(run: RunFolder, content: bytes) -> str:
        return str(client.change(f"/runs/{run.path.name}/photograph", content).text)

    bars = said(colours, photograph((10, 10, 250)))
    assert "All files give the same answer." in bars
    assert "&lt;b&gt;blue" in bars
    assert bars.count("<rect") == 6
    assert "not a JPEG" in said(colours, b"text")
    boxes = said(detectors, two_cells())
    assert boxes.count('<svg viewBox="0 0 128 64"') == 2
    assert boxes.count("<rect x=") == 4
    assert boxes.count("2 found from a score of 0.60 on") == 2
    assert "All files find the same numbers of objects." in boxes
    assert boxes.count(">red ") == 4
    centres = re.findall(r'<circle cx="(\S+)" cy="(\S+)"', said(counters, two_cells()))
    assert sorted({(float(x), float(y)) for x, y in centres}) == [(16.0, 8.0), (80.0, 40.0)]
    nothing = said(counters, photograph((20, 20, 20)))
    assert nothing.count("0 found from a score of 0.60 on") == 2
    assert "<circle" not in nothing
