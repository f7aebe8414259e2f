"""A classifier that keeps its form becomes a card, byte for byte, or is refused with the reason and nothing is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog.catalogue_files import user_catalogue_file
from advisor.catalog.labels import published_labels
from advisor.catalog.user_models.description import ModelDescription
from advisor.catalog.user_models.import_model import ImportedModel, add, inspect
from advisor.core.errors import UsageError
from advisor.tasks import CLASSIFICATION
from advisor.tflite.float16 import to_float16
from advisor.tflite.metadata import Metadata
from advisor.tflite.metadata_writer import write_metadata
from tests.measurement import small_models
from tests.tflite.graphs import edited

SIDE = 32
LABELS = ("ant", "bee", "cat", "dog")
SAID = Metadata("net", LABELS, (127.5,), (127.5,), licence="MIT")

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("own_folders")]


def kept(folder: Path, data: bytes, said: Metadata | None = SAID) -> Path:
    """Write a file, with its description if there is one."""
    path = folder / "net.tflite"
    path.write_bytes(write_metadata(data, said) if said else data)
    return path


def brought(file: Path, finished: bool = False, **said: Any) -> ImportedModel:
    with inspect(file, finished=finished) as inspected:
        return add(inspected, ModelDescription(**said))


def test_a_quantized_classifier_becomes_a_card_without_a_changed_byte(tmp_path: Path) -> None:
    data = small_models.quantized(small_models.classifier(SIDE), tmp_path, SIDE)
    file = kept(tmp_path, data)
    added = brought(file)
    card = added.card
    assert (card.architecture, card.form, card.as_it_is) == ("tflite_fixed", "int8", True)
    assert card.task == CLASSIFICATION.name
    assert (card.input_size, card.classes, published_labels(card)) == (SIDE, len(LABELS), LABELS)
    assert "taken as it is" in card.note
    assert added.model.read_bytes() == file.read_bytes()
    assert {label for _, label, _ in added.seen} <= set(LABELS)


@pytest.mark.parametrize(
    ("make", "form"),
    [(lambda data: data, "float32"), (to_float16, "float16"), (small_models.dynamic_int8, "dynamic_int8")],
)
def test_the_form_of_a_file_is_what_it_computes_in(tmp_path: Path, make: Callable[[bytes], bytes], form: str) -> None:
    assert brought(kept(tmp_path, make(small_models.classifier(SIDE))), finished=True).card.form == form


def test_a_float_file_is_retrained_unless_it_is_to_stay_as_it_is(tmp_path: Path) -> None:
    assert not brought(kept(tmp_path, small_models.classifier(SIDE))).card.form


def test_logits_become_probabilities(tmp_path: Path) -> None:
    build = small_models.Builder()
    pooled = build.mean(build.convolution(build.input(SIDE), 8, 3, 2))
    data = build.finish({"image": 0}, {"logits": build.dense(pooled, len(LABELS))})
    added = brought(kept(tmp_path, data), finished=True)
    assert all(0 < probability <= 1 for _, _, probability in added.seen)


def test_an_open_batch_is_fixed_and_the_description_kept(tmp_path: Path) -> None:
    def open_batch(model: Any) -> None:
        for tensor in (*model.subgraphs[0].inputs, *model.subgraphs[0].outputs):
            shape = [int(side) for side in model.subgraphs[0].tensors[tensor].shape]
            model.subgraphs[0].tensors[tensor].shapeSignature = [-1, *shape[1:]]

    given = edited(small_models.dynamic_int8(small_models.classifier(SIDE)), open_batch)
    (tmp_path / "labels.txt").write_text("\n".join(LABELS), encoding="utf-8")
    (tmp_path / "net.tflite").write_bytes(given)
    card = brought(tmp_path / "net.tflite", labels=str(tmp_path / "labels.txt"), mean=(127.5,), std=(127.5,)).card
    assert (card.form, published_labels(card)) == ("dynamic_int8", LABELS)


def _two_inputs() -> bytes:
    build = small_models.Builder()
    first, second = build.input(SIDE), build.input(SIDE)
    return build.finish({"a": first, "b": second}, {"probabilities": build.head(build.mean(first), 4)})


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_two_inputs, "2 inputs, an image model has one"),
        (lambda: b"no model at all", "net.tflite"),
        (lambda: small_models.classifier(SIDE)[:2000], "net.tflite"),
        (small_models.unknown_operator, "operators that a plain runtime lacks: CUSTOM:Nobody"),
        (lambda: small_models.of_a_newer_runtime(small_models.classifier(SIDE)), "LiteRT cannot run it"),
    ],
    ids=["two inputs", "no file", "cut", "custom operator", "newer operator"],
)
def test_what_cannot_take_part_is_refused_and_nothing_is_kept(
    tmp_path: Path, make: Callable[[], bytes], reason: str
) -> None:
    (tmp_path / "net.tflite").write_bytes(make())
    with pytest.raises(UsageError, match=reason) as refused:
        brought(tmp_path / "net.tflite", finished=True, mean=(0.0,), std=(1.0,))
    assert refused.value.hint
    assert not user_catalogue_file().exists()


def test_labels_that_are_not_known_are_asked_for(tmp_path: Path) -> None:
    file = kept(tmp_path, small_models.dynamic_int8(small_models.classifier(SIDE)), None)
    with pytest.raises(UsageError, match="does not say its labels, mean, std"):
        brought(file)


def test_another_number_of_labels_is_refused(tmp_path: Path) -> None:
    file = kept(tmp_path, small_models.dynamic_int8(small_models.classifier(SIDE)), None)
    (tmp_path / "labels.txt").write_text("ant\nbee\n", encoding="utf-8")
    with pytest.raises(UsageError, match="2 labels do not fit a model of 4 classes"):
        brought(file, labels=str(tmp_path / "labels.txt"), mean=(127.5,), std=(127.5,))


def test_options_go_before_what_the_file_says(tmp_path: Path) -> None:
    file = kept(tmp_path, small_models.dynamic_int8(small_models.classifier(SIDE)), replace(SAID, mean=(0.0,)))
    assert brought(file, mean=(100.0,)).card.preprocessing.mean == (100.0,) * 3
