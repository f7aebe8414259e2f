"""``compress``, ``diagnose`` and ``check_data``: what they refuse, and what they pass on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from advisor.api import check_data, compress, diagnose
from advisor.core.errors import UsageError
from advisor.engine.compress import compress as work
from advisor.engine.compress import question
from tests.datasets.folders import make
from tests.measurement import small_models


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    path.write_bytes(small_models.classifier(32, classes=2))
    return path


def test_every_argument_reaches_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []
    made: list[tuple[Any, ...]] = []
    monkeypatch.setattr(question, "ask", lambda *given, **options: asked.append((given, options)) or "question")
    monkeypatch.setattr(work, "compress", lambda *given: made.append(given))
    options = {"max_drop_points": 0.5, "mean": (1.0,), "std": (2.0,), "seed": 3, "learn_s": 4.0, "force": True}
    compress(
        "net.tflite", ["int8"], calibration="c", data="d", samples="s.npz", to="t", latency=False,
        accelerator="edgetpu", tell=print, **options,
    )  # fmt: skip
    places = {"calibration": "c", "data": "d", "samples": "s.npz", "to": "t"}
    assert asked == [((Path("net.tflite"), ["int8"]), {**options, **places, "accelerator": "edgetpu"})]
    assert made == [("question", print, False)]


@pytest.mark.parametrize(
    ("recipes", "options", "message"),
    [
        (["int9"], {}, "did you mean 'int8'"),
        (["int8"], {"max_drop_points": 1.0}, "--max-drop"),
        (["int8"], {"accelerator": "edgetpuu"}, "did you mean 'edgetpu'"),
        (["int8"], {}, "does not say"),
    ],
)
def test_what_cannot_be_compressed_is_refused_and_nothing_made(
    model: Path, monkeypatch: pytest.MonkeyPatch, recipes: list[str], options: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(model.parent)
    with pytest.raises(UsageError) as caught:
        compress(model, recipes, **options)
    assert message in caught.value.message
    assert [path.name for path in model.parent.iterdir()] == ["net.tflite"]


def test_a_file_without_its_normalization_is_not_diagnosed(model: Path) -> None:
    with pytest.raises(UsageError, match="normalis"):
        diagnose(model, model)


def test_a_file_that_is_missing_is_not_diagnosed(model: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.tflite"):
        diagnose(model.with_name("absent.tflite"), model, mean=[127.5], std=[127.5])


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes with one copy."""
    root = make(tmp_path / "photos", cat=12, dog=12)
    shutil.copy(root / "cat" / "000.jpg", root / "cat" / "copy.jpg")
    return root


def test_a_manifest_leaves_the_suspects_out(photos: Path, tmp_path: Path) -> None:
    told: list[str] = []
    checked = check_data(photos, labels=False, fix=tmp_path / "cleaned.csv", tell=told.append)
    assert [finding.kind.value for finding in checked.findings if finding.leave_out] == ["exact duplicates"]
    assert len((tmp_path / "cleaned.csv").read_text().splitlines()) == 1 + 24
    assert told


@pytest.mark.parametrize(
    ("name", "message"),
    [("cleaned.txt", "is not named as a CSV file"), ("there.csv", "exists"), ("none/a.csv", "does not exist")],
)
def test_a_manifest_that_cannot_be_written_is_refused_before_the_check(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "there.csv").write_text("")
    with pytest.raises(UsageError, match=message):
        check_data(tmp_path / "no images here", fix=tmp_path / name)


def test_a_card_that_there_is_not_is_refused(photos: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'mobilenet_v2_1.0_224'"):
        check_data(photos, card="mobilenet_v2_1.0_225")
