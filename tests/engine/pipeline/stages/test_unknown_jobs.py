from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.special import softmax

from advisor.compression.recipes.mixed import answers
from advisor.core.codec import parse
from advisor.core.unknown_facts import UnknownFacts
from advisor.datasets.images import InputSpec
from advisor.engine.pipeline.stages.unknown_jobs import HeadSpec, LearntImages, add_unknown, probe
from advisor.tflite.metadata import Metadata, read_metadata
from advisor.tflite.metadata_writer import write_metadata
from advisor.tflite.unknown import with_probe
from tests.builders import present
from tests.tflite.test_temperature import CLASSES, SIDE, classifier, form

NAMES = ("a", "b", "c", "d", "e")
FEATURES = 16
TRAIN, VALIDATION = list(range(200)), list(range(200, 320))
Make = Callable[..., tuple[Path, UnknownFacts]]


def images(seed: int, count: int) -> np.ndarray:
    """Return one-coloured noisy images of five colours in turn, and their number is the class."""
    random = np.random.default_rng(seed)
    colours = np.random.default_rng(9).uniform(-3, 3, (CLASSES, 3))[np.arange(count) % CLASSES]
    return (colours[:, None, None] + random.normal(0, 0.4, (count, SIDE, SIDE, 3))).astype(np.float32)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return the function that gives a classifier the class, by head and names of the classes."""

    def made(
        name: str = "float32", classes: tuple[str, ...] = NAMES, labels: int = CLASSES, frozen: bool = True
    ) -> tuple[Path, UnknownFacts]:
        data = form(1, name)
        metadata = Metadata("m", classes, (0.0,), (1.0,), "what", "who", "MIT", "1")
        (tmp_path / "model.tflite").write_bytes(write_metadata(data, metadata))
        floats = answers(with_probe(classifier(1)), images(0, 320))
        own = answers(with_probe(data), images(0, 320))[VALIDATION]
        arrays = {"floats": floats, "own": own, "scores": softmax(own[:, FEATURES:], axis=1)}
        files = {each: tmp_path / f"{each}.npy" for each in arrays}
        for each, rows in arrays.items():
            np.save(files[each], rows)
        truth = tuple(number % labels for number in range(320))
        floats_of = (files["floats"],)
        learnt = LearntImages(floats_of, floats_of, truth, tuple(TRAIN), tuple(VALIDATION))
        head = HeadSpec("last_layer", 1.0, frozen)
        model, made = tmp_path / "model.tflite", tmp_path / "made.tflite"
        found = add_unknown(model, files["scores"], files["own"], learnt, classes, head, made)
        return tmp_path / "made.tflite", parse(UnknownFacts, found)

    return made


def test_each_class_is_left_out_in_turn(make: Make) -> None:
    _, facts = make()
    assert list(facts.by_class) == list(NAMES)
    assert present(facts.auroc).value == pytest.approx(np.mean([each.auroc.value for each in facts.by_class.values()]))
    assert {each.images for each in facts.by_class.values()} == {24}


def test_the_figures_of_a_float_file_are_those_of_its_reference(make: Make) -> None:
    _, facts = make()
    assert facts.auroc == facts.float_auroc


def test_the_file_has_one_more_label_and_answers_noise_with_it(make: Make) -> None:
    file, facts = make("int8")
    metadata = present(read_metadata(file.read_bytes()))
    assert metadata.labels == (*NAMES, "unknown")
    assert facts.size_bytes == file.stat().st_size
    known = answers(file.read_bytes(), images(1, 100)).argmax(axis=1)
    assert (known != CLASSES).mean() > 0.8


def test_a_class_of_that_name_gives_the_new_one_another_name(make: Make) -> None:
    _, facts = make(classes=("unknown", "b", "c", "d", "e"))
    assert facts.label == "other"


def test_two_classes_are_never_left_out(make: Make) -> None:
    _, facts = make(labels=2)
    assert (facts.by_class, facts.auroc, facts.label) == ({}, None, "unknown")


def test_a_class_with_few_validation_images_is_not_left_out(make: Make) -> None:
    _, facts = make(labels=4)
    assert "e" not in facts.by_class


def test_a_fine_tuned_head_on_one_layer_has_no_neighbours(make: Make) -> None:
    sizes = [make(frozen=frozen)[0].stat().st_size for frozen in (True, False)]
    assert sizes[1] < sizes[0] - 5000


def test_the_probe_of_images_has_a_row_for_each(tmp_path: Path) -> None:
    paths = []
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 256, (20, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        paths.append(tmp_path / f"{number}.png")
    (tmp_path / "model.tflite").write_bytes(form(2, "int8"))
    spec = InputSpec(SIDE, (127.5,) * 3, (64.0,) * 3)
    probe(tmp_path / "model.tflite", paths, spec, tmp_path / "rows.npy")
    assert np.load(tmp_path / "rows.npy").shape == (3, 24 + CLASSES)
