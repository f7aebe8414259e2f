"""A user's own detector becomes a card, or is refused with the reason and nothing is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ai_edge_litert import schema_py_generated as schema

from advisor.catalog import load_catalogue
from advisor.catalog.labels import published_labels
from advisor.catalog.user_models.description import ModelDescription
from advisor.catalog.user_models.import_model import ImportedModel, add, inspect
from advisor.core.errors import UsageError
from advisor.tasks import DETECTION
from advisor.tflite.float16 import to_float16
from advisor.tflite.metadata import read_metadata
from advisor.tflite.model import read
from advisor.tflite.postprocess import OPERATOR
from tests.detectors import COLOURS, SIDE, detector_file, raw_detector
from tests.measurement import small_models
from tests.tflite.graphs import edited, relu_on_scores, repeat_last_operator

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("own_folders")]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A detector without metadata."""
    return detector_file(tmp_path / "bare.tflite", labels=None)


@pytest.fixture
def labels(tmp_path: Path) -> str:
    (tmp_path / "labels.txt").write_text("\n".join(COLOURS), encoding="utf-8")
    return str(tmp_path / "labels.txt")


def brought(file: Path, **said: Any) -> ImportedModel:
    with inspect(file) as inspected:
        return add(inspected, ModelDescription(**said))


def test_a_detector_that_describes_itself_becomes_a_card(tmp_path: Path) -> None:
    added = brought(detector_file(tmp_path / "cells.tflite"))
    card = load_catalogue([added.catalogue]).card("cells")
    assert (card.architecture, card.task, card.as_it_is) == ("tflite_detector", DETECTION.name, True)
    assert (card.input_size, card.classes, card.licence) == (SIDE, 3, "MIT")
    assert card.preprocessing.mean == (127.5,) * 3
    assert published_labels(card) == COLOURS
    assert "cannot be retrained" in card.note
    assert {label for _, label, _ in added.seen} <= set(COLOURS)
    kept = read(added.model.read_bytes())
    assert [name for name, _ in kept.signatures[0].outputs] == ["boxes", "classes", "scores", "count"]


def test_a_detector_keeps_its_side(tmp_path: Path) -> None:
    card = brought(detector_file(tmp_path / "cells.tflite")).card
    assert card.at(320) == card


def test_float16_weights_become_float32(tmp_path: Path) -> None:
    path = detector_file(tmp_path / "half.tflite", labels=None)
    path.write_bytes(to_float16(path.read_bytes()))
    (tmp_path / "labels.txt").write_text("\n".join(COLOURS), encoding="utf-8")
    added = brought(path, labels=str(tmp_path / "labels.txt"), mean=(127.5,), std=(127.5,))
    assert not any(tensor.dtype == "float16" for tensor in read(added.model.read_bytes()).tensors)


def test_a_detector_without_metadata_gets_it_from_the_options(bare: Path, labels: str) -> None:
    with pytest.raises(UsageError, match=r"bare.tflite does not say its labels, mean, std: give --labels and --mean"):
        brought(bare)
    added = brought(bare, labels=labels, mean=(127.5,), std=(127.5,))
    said = read_metadata(added.model.read_bytes())
    assert said is not None
    assert said.labels == COLOURS


def test_labels_of_another_number_are_refused(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "four.txt").write_text("background\nred\ngreen\nblue\n", encoding="utf-8")
    with pytest.raises(UsageError, match="4 labels do not fit a model of 3 classes") as caught:
        brought(bare, labels=str(tmp_path / "four.txt"), mean=(127.5,), std=(127.5,))
    assert "the background of a detector is no class" in caught.value.hint
    assert not (tmp_path / "config" / "catalog.yaml").exists()


def test_a_top1_of_a_detector_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--top1: 71 is no figure of object-detection, which has mAP@0.5"):
        brought(detector_file(tmp_path / "cells.tflite"), top1=71.0)


def rounded(folder: Path) -> Path:
    """An int8 detector as teams ship it: no signature, outputs in another order."""
    raw = small_models.quantized(raw_detector(), folder, SIDE)
    return detector_file(folder / "shipped.tflite", raw=raw)


def test_a_quantized_detector_keeps_its_form(tmp_path: Path) -> None:
    added = brought(rounded(tmp_path))
    card = added.card
    assert (card.architecture, card.form, card.task, card.as_it_is) == (
        "tflite_fixed_detector", "int8", DETECTION.name, True
    )  # fmt: skip
    assert (card.input_size, card.classes, published_labels(card)) == (SIDE, 3, COLOURS)
    assert {label for _, label, _ in added.seen} <= set(COLOURS)
    kept, given = (read(path.read_bytes()) for path in (added.model, tmp_path / "shipped.tflite"))
    assert [name for name, _ in kept.signatures[0].outputs] == ["boxes", "classes", "scores", "count"]
    assert [each.name for each in kept.operators] == [each.name for each in given.operators]


def test_a_float_detector_keeps_its_form_if_asked(tmp_path: Path) -> None:
    with inspect(detector_file(tmp_path / "cells.tflite"), finished=True) as inspected:
        assert add(inspected, ModelDescription()).card.form == "float32"


def uint8(model: Any) -> None:
    image = model.subgraphs[0].tensors[model.subgraphs[0].inputs[0]]
    image.type = schema.TensorType.UINT8


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (uint8, "bare.tflite: it takes or gives uint8, not float32"),
        (repeat_last_operator, f"bare.tflite has 2 operators {OPERATOR}, and a detector has 1"),
        (relu_on_scores, f"bare.tflite does not end in {OPERATOR}: RELU reads its output"),
    ],
)
def test_what_is_no_float_detector_is_refused(bare: Path, edit: Callable[[Any], None], message: str) -> None:
    bare.write_bytes(edited(bare.read_bytes(), edit))
    with pytest.raises(UsageError, match=message) as caught:
        brought(bare)
    assert caught.value.hint
