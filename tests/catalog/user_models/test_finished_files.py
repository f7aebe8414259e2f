"""A classifier that keeps its form becomes a card, byte for byte, or is refused with the reason and nothing is kept."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ai_edge_litert import schema_py_generated as schema

from advisor.catalog import Catalogue, ImportedModel, make_shipped_card, read_published_labels, user_catalogue_file
from advisor.catalog._user_models.import_model import ModelDescription, add, inspect
from advisor.core import UsageError
from advisor.isolation import Scratch
from advisor.tasks.classification import CLASSIFICATION
from advisor.tasks.detection import DETECTION
from advisor.tflite import OPERATOR, Metadata, read, to_float16
from tests.builders import must_fail, write_file
from tests.detectors import COLOURS, SIDE as DETECTORS_SIDE, detector_file, raw_detector
from tests.measurement import small_models
from tests.tflite.graphs import edited, relu_on_scores, repeat_last_operator

SIDE = 32
LABELS = ("ant", "bee", "cat", "dog")
SAID = Metadata("net", LABELS, (127.5,), (127.5,), licence="MIT")

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("own_folders", "in_process")]


def kept(folder: Path, data: bytes, said: Metadata | None = SAID) -> Path:
    """Write a file, with its description if there is one."""
    return write_file(folder / "net.tflite", said.write_into(data) if said else data)


def listed(folder: Path, *labels: str) -> str:
    (folder / "labels.txt").write_text("\n".join(labels), encoding="utf-8")
    return str(folder / "labels.txt")


def brought(file: Path, finished: bool = False, **said: Any) -> ImportedModel:
    with inspect(file, finished=finished) as inspected:
        return add(inspected, ModelDescription(**said))


def test_a_quantized_classifier_becomes_a_card_without_a_changed_byte(tmp_path: Path) -> None:
    data = small_models.quantized(small_models.classifier(SIDE), tmp_path, SIDE)
    file = kept(tmp_path, data)
    added = brought(file)
    card = added.card
    assert (card.architecture, card.form, card.is_finished) == ("tflite_fixed", "int8", True)
    assert card.task == CLASSIFICATION.name
    assert (card.input_size, card.classes, read_published_labels(card)) == (SIDE, len(LABELS), LABELS)
    assert "taken as it is" in card.note
    assert added.model.read_bytes() == file.read_bytes()
    assert {label for _, label, _ in added.seen} <= set(LABELS)


@pytest.mark.parametrize(
    ("make", "finished", "form"),
    [(bytes, False, ""), (bytes, True, "float32"), (to_float16, True, "float16"),
     (small_models.dynamic_int8, True, "dynamic_int8")],
)  # fmt: skip
def test_the_form_of_a_finished_file(tmp_path: Path, make: Callable[[bytes], bytes], finished: bool, form: str) -> None:
    assert brought(kept(tmp_path, make(small_models.classifier(SIDE))), finished).card.form == form


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
    card = brought(kept(tmp_path, given, None), labels=listed(tmp_path, *LABELS), mean=(127.5,), std=(127.5,)).card
    assert (card.form, read_published_labels(card)) == ("dynamic_int8", LABELS)


@pytest.mark.parametrize("form", ["float32", "int8"])
def test_an_output_without_a_shape_has_the_one_that_the_runtime_gives_it(tmp_path: Path, form: str) -> None:
    def shapeless(model: Any) -> None:
        for operator in model.subgraphs[0].operators[-2:]:
            model.subgraphs[0].tensors[operator.outputs[0]].shape = []

    data = small_models.classifier(SIDE)
    data = small_models.quantized(data, tmp_path, SIDE) if form == "int8" else data
    file = kept(tmp_path, edited(data, shapeless), None)
    added = brought(file, labels=listed(tmp_path, *LABELS), mean=(127.5,), std=(127.5,))
    assert (added.card.classes, added.card.form) == (len(LABELS), "" if form == "float32" else form)
    assert {label for _, label, _ in added.seen} <= set(LABELS)


def uint8(model: Any) -> None:
    image = model.subgraphs[0].tensors[model.subgraphs[0].inputs[0]]
    image.type = schema.TensorType.UINT8


def _detector(edit: Callable[[Any], None]) -> bytes:
    with Scratch() as folder:
        return edited(detector_file(folder / "bare.tflite", labels=None).read_bytes(), edit)


def _two_inputs() -> bytes:
    build = small_models.Builder()
    first, second = build.input(SIDE), build.input(SIDE)
    return build.finish({"a": first, "b": second}, {"probabilities": build.head(build.mean(first), 4)})


@pytest.mark.parametrize(
    ("make", "finished", "reason"),
    [
        (_two_inputs, True, "2 inputs, an image model has one"),
        (lambda: b"no model at all", True, "net.tflite"),
        (lambda: small_models.classifier(SIDE)[:2000], True, "net.tflite"),
        (small_models.unknown_operator, True, "operators that a plain runtime lacks: CUSTOM:Nobody"),
        (lambda: small_models.of_a_newer_runtime(small_models.classifier(SIDE)), True, "LiteRT cannot run it"),
        (partial(_detector, uint8), False, "net.tflite: it takes or gives uint8, not float32"),
        (partial(_detector, repeat_last_operator), False, f"has 2 operators {OPERATOR}, and a detector has 1"),
        (partial(_detector, relu_on_scores), False, f"does not end in {OPERATOR}: RELU reads its output"),
    ],
)
def test_what_cannot_take_part_is_left(tmp_path: Path, make: Callable[[], bytes], finished: bool, reason: str) -> None:
    must_fail(UsageError, reason, brought, kept(tmp_path, make(), None), finished, mean=(0.0,), std=(1.0,))
    assert not user_catalogue_file().exists()


def test_options_go_before_what_the_file_says(tmp_path: Path) -> None:
    file = kept(tmp_path, small_models.dynamic_int8(small_models.classifier(SIDE)), replace(SAID, mean=(0.0,)))
    assert brought(file, mean=(100.0,)).card.preprocessing.mean == (100.0,) * 3


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return detector_file(tmp_path / "bare.tflite", labels=None)


def test_a_detector_that_describes_itself_becomes_a_card(tmp_path: Path) -> None:
    added = brought(detector_file(tmp_path / "cells.tflite"))
    card = Catalogue.load([added.catalogue]).card("cells")
    assert (card.architecture, card.task, card.is_finished) == ("tflite_detector", DETECTION.name, True)
    assert (card.input_size, card.classes, card.licence) == (DETECTORS_SIDE, 3, "MIT")
    assert card.preprocessing.mean == (127.5,) * 3
    assert read_published_labels(card) == COLOURS
    assert "cannot be retrained" in card.note
    assert {label for _, label, _ in added.seen} <= set(COLOURS)
    kept = read(added.model.read_bytes())
    assert [name for name, _ in kept.signatures[0].outputs] == ["boxes", "classes", "scores", "count"]
    assert card.at(320) == card
    assert brought(detector_file(tmp_path / "whole.tflite"), finished=True).card.form == "float32"


def test_a_detector_of_float16_weights_without_metadata_gets_it_from_the_options(bare: Path, tmp_path: Path) -> None:
    bare.write_bytes(to_float16(bare.read_bytes()))
    must_fail(UsageError, r"bare.tflite does not say its labels, mean, std: give --labels and --mean", brought, bare)
    added = brought(bare, labels=listed(tmp_path, *COLOURS), mean=(127.5,), std=(127.5,))
    said = Metadata.read(added.model.read_bytes())
    assert said.labels == COLOURS
    assert not any(tensor.dtype == "float16" for tensor in read(added.model.read_bytes()).tensors)


def test_labels_of_another_number_and_a_top1_of_a_detector_are_refused(bare: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="4 labels do not fit a model of 3 classes") as caught:
        brought(bare, labels=listed(tmp_path, "background", *COLOURS), mean=(127.5,), std=(127.5,))
    assert "the background of a detector is no class" in caught.value.hint
    assert not (tmp_path / "config" / "catalog.yaml").exists()
    with pytest.raises(UsageError, match=r"--top1: 71 is no figure of object-detection, which has mAP@0.5"):
        brought(detector_file(tmp_path / "cells.tflite"), top1=71.0)


def test_a_quantized_detector_keeps_its_form(tmp_path: Path) -> None:
    """As teams ship it: no signature, outputs in another order."""
    raw = small_models.quantized(raw_detector(), tmp_path, DETECTORS_SIDE)
    added = brought(detector_file(tmp_path / "shipped.tflite", raw=raw))
    card = added.card
    facts = (card.architecture, card.form, card.task, card.is_finished)
    assert facts == ("tflite_fixed_detector", "int8", DETECTION.name, True)
    assert (card.input_size, card.classes, read_published_labels(card)) == (DETECTORS_SIDE, 3, COLOURS)
    assert {label for _, label, _ in added.seen} <= set(COLOURS)
    kept, given = (read(path.read_bytes()) for path in (added.model, tmp_path / "shipped.tflite"))
    assert [name for name, _ in kept.signatures[0].outputs] == ["boxes", "classes", "scores", "count"]
    assert [each.name for each in kept.operators] == [each.name for each in given.operators]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return kept(tmp_path, small_models.classifier(SIDE))


def test_a_file_has_a_catalogue_of_its_own_and_keeps_it_until_it_changes(file: Path) -> None:
    card, catalogue = make_shipped_card(file)
    assert (card.name, card.family, card.form) == ("net", "shipped", "float32")
    before = catalogue.stat().st_mtime_ns
    assert make_shipped_card(file) == (card, catalogue)
    assert catalogue.stat().st_mtime_ns == before
    assert not user_catalogue_file().exists()
    kept(file.parent, small_models.dynamic_int8(small_models.classifier(SIDE)))
    changed, other = make_shipped_card(file)
    assert (changed.form, other == catalogue) == ("dynamic_int8", False)


def test_a_name_that_is_taken_gets_a_suffix_and_a_missing_file_is_refused(file: Path, tmp_path: Path) -> None:
    taken = file.rename(file.with_name("mobilenet_v2_1.0_224.tflite"))
    assert make_shipped_card(taken)[0].name == "mobilenet_v2_1.0_224-shipped"
    must_fail(UsageError, "--candidates: there is no file", make_shipped_card, tmp_path / "gone.tflite")


def test_a_file_without_labels_says_how_to_add_it(tmp_path: Path) -> None:
    bare = kept(tmp_path, small_models.classifier(SIDE), None)
    refused = must_fail(UsageError, "does not say its labels", make_shipped_card, bare)
    assert "advisor catalog add" in refused.hint
