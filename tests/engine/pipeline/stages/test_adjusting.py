"""The head of a quantized file, adjusted to the features that its own backbone gives."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.catalog import Catalogue
from advisor.core import HeadFacts, TrainingName
from advisor.datasets import InputSpec
from advisor.engine import Question, Role, StageName, VariantStages, Workload
from advisor.engine._pipeline.graph import with_all_before
from advisor.engine._pipeline.stages.adjusting import MOST_IMAGES
from advisor.engine._pipeline.stages.adjusting_jobs import KEPT, MATCHED, REFITTED, SHIPS_FILE, HeadImages, adjust_head
from advisor.measurement import predict
from advisor.tasks.detection import DETECTION
from advisor.tflite import read_head, unpack, with_probe
from advisor.training import extract_features
from tests.engine.plans import image_counts
from tests.tables import with_cases
from tests.tflite.test_temperature import CLASSES, SIDE, classifier, form, random_images

CARD = Catalogue.load()["mobilenet_v2_1.0_224"]
SPEC = InputSpec(SIDE, (127.5,) * 3, (32.0,) * 3)
IMAGES = 60
TRAINED = Workload((TrainingName.HEAD, TrainingName.FINETUNE_CACHED), ("float32", "int8"), image_counts(1000, 200, 250))
Make = Callable[..., tuple[dict[str, object], Path]]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Images of the small classifier's classes: the first five are one of each."""
    folder, found = tmp_path_factory.mktemp("images"), []
    for number, image in enumerate(random_images()[:IMAGES]):
        pixels = np.rint(image * SPEC.std[0] + SPEC.mean[0]).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
        found.append(folder / f"{number}.png")
    return tuple(found)


def shifted(data: bytes) -> bytes:
    """A file whose features are shifted: the bias of its last convolution is another."""
    model = unpack(data)
    kernels = [operator for operator in model.subgraphs[0].operators if len(operator.inputs) > 2]
    bias = model.subgraphs[0].tensors[kernels[-2].inputs[2]]
    values = np.frombuffer(model.buffers[bias.buffer].data.tobytes(), "<i4")
    model.buffers[bias.buffer].data = np.frombuffer((values + 4000).astype("<i4").tobytes(), np.uint8)
    return model.pack()


def coarse(data: bytes) -> bytes:
    """A file whose head keeps only the largest of its steps, as rounding without data may leave it."""
    model = unpack(data)
    head = next(each for each in reversed(model.subgraphs[0].operators) if len(each.inputs) > 2)
    kernel = model.buffers[model.subgraphs[0].tensors[head.inputs[1]].buffer]
    kernel.data = (kernel.data.view("i1") // 64 * 64).view(np.uint8)
    return model.pack()


@pytest.fixture
def made(paths: tuple[Path, ...], tmp_path: Path) -> Make:
    """Adjust the head of a file in a folder; the classes are the answers of the float file."""

    def make(
        quantized: bytes, matched: bool = False, compared: Path | None = None, train: int = 45
    ) -> tuple[dict, Path]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        model, floats, probed, out = (folder / f"{name}.tflite" for name in ("int8", "float", "probe", "model"))
        model.write_bytes(quantized)
        floats.write_bytes(classifier(1))
        probed.write_bytes(with_probe(classifier(1), logits=False))
        np.save(folder / "features.npy", extract_features(probed, paths, SPEC))
        labels = predict(floats, paths, SPEC).argmax(axis=1).tolist()
        given = HeadImages(paths, tuple(labels), (), tuple(range(train)), CLASSES, 0)
        if not matched:
            facts = HeadFacts("all_levels", 1.0, at_grid_end=False, cv_accuracy=0.9, cv_images=train)
            given = replace(given, head=facts, features=(folder / "features.npy",), backbone=probed)
        return adjust_head(model, floats, given, SPEC, compared, {"arena_bytes": 7}, {"learning": 1}, out), out

    return make


def divergence(paths: tuple[Path, ...], file: Path) -> float:
    """Return the mean distance of a file's probabilities from those of the float file beside it."""
    return float(np.abs(predict(file, paths, SPEC) - predict(file.with_name("float.tflite"), paths, SPEC)).mean())


def right(paths: tuple[Path, ...], file: Path) -> float:
    """Return the share of images with the same answer as the float file beside it."""
    answers = (predict(each, paths, SPEC).argmax(axis=1) for each in (file, file.with_name("float.tflite")))
    return float(np.equal(*answers).mean())


@pytest.mark.integration
@pytest.mark.parametrize(("matched", "word"), [(True, MATCHED), (False, REFITTED)])
def test_answers_changed_by_a_shift_come_back(made: Make, paths: tuple[Path, ...], matched: bool, word: str) -> None:
    result, file = made(shifted(form(1, "int8")), matched)
    assert result == {"arena_bytes": 7, "notes": {"learning": 1, "head": word}}
    assert right(paths, file) > right(paths, file.with_name("int8.tflite")) + 0.1
    if matched:
        assert divergence(paths, file) < divergence(paths, file.with_name("int8.tflite")) / 2


@pytest.mark.integration
def test_the_file_that_ships_takes_the_head_that_the_pass_over_its_backbone_gave(made: Make) -> None:
    compared = made(shifted(form(1, "int8")))[1]
    assert np.load(compared.with_name(SHIPS_FILE))["rows"].shape == (IMAGES, 16)
    _, ships = made(shifted(form(1, "int8")), compared=compared)
    kept = np.load(compared.with_name(SHIPS_FILE))
    assert np.abs(read_head(ships.read_bytes())[0] - kept["weights"]).mean() < 0.05 * np.abs(kept["weights"]).mean()
    assert not ships.with_name(SHIPS_FILE).exists()


@pytest.mark.integration
def test_a_file_of_the_compared_backbone_alone_makes_no_pass(made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    result, ships = made(form(1, "int8"), compared=made(shifted(form(1, "int8")))[1])
    assert result["notes"]["head"] == REFITTED
    assert ships.with_name(SHIPS_FILE).exists()
    monkeypatch.setattr("advisor.training._head.quantized.refit_head", lambda *_: None)
    ships.with_name(SHIPS_FILE).unlink()
    result, ships = made(form(1, "int8"), compared=made(form(1, "int8"))[1])
    assert result["notes"]["head"] == KEPT
    assert not ships.with_name(SHIPS_FILE).exists()


@pytest.mark.integration
def test_a_float_head_is_rounded_again(made: Make, paths: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.training._head.quantized.match_logits", lambda *_: None)
    result, file = made(coarse(form(1, "int8")), matched=True)
    assert result["notes"]["head"] == KEPT
    assert divergence(paths, file) < divergence(paths, file.with_name("int8.tflite")) / 4


@pytest.mark.integration
def test_a_head_that_cannot_be_written_stays_and_the_notes_say_why(made: Make) -> None:
    result, file = made(form(1, "weight_int8"), matched=True)
    assert str(result["notes"]["head"]).startswith(f"{KEPT}: ")
    assert file.read_bytes() == form(1, "weight_int8")


def adjusting(training: str, compression: str, workload: Workload = TRAINED) -> list[str]:
    stages = with_all_before(VariantStages(CARD, training, compression, workload).evaluation)
    return [stage.scope.purpose for stage in stages if stage.name is StageName.ADJUST]


@pytest.mark.parametrize("training", [TrainingName.HEAD, TrainingName.FINETUNE_CACHED])
@pytest.mark.parametrize("form", ["int8", "int8_float_io", "mixed_int8", "qat_int8", "int8_per_tensor"])
def test_the_compared_file_and_the_one_that_ships_are_adjusted(training: str, form: str) -> None:
    assert adjusting(training, form) == ["compare", "ship"]


@with_cases
def test_other_files_keep_their_head(training: str, form: str, images: str) -> None:
    boxed = replace(TRAINED, question=Question(DETECTION.name))
    workload = {"classes": TRAINED, "none": Workload((TrainingName.NONE,), ("float32", "int8")), "boxes": boxed}[images]
    assert adjusting(training, form, workload) == []


def test_timings_do_not_wait_for_the_head() -> None:
    stages = VariantStages(CARD, TrainingName.HEAD, "int8", TRAINED)
    assert StageName.ADJUST not in {stage.name for stage in with_all_before([stages.timed])}


@pytest.mark.parametrize(
    ("training", "workload", "reads"),
    [
        (TrainingName.HEAD, TRAINED, True),
        (TrainingName.FINETUNE_CACHED, TRAINED, False),
        (TrainingName.HEAD, replace(TRAINED, question=Question(robust=True)), False),
        (TrainingName.HEAD, replace(TRAINED, images={**TRAINED.images, Role.LEARNT: MOST_IMAGES + 1}), False),
    ],
    ids=["refitted", "fine-tuned", "robust", "large"],
)
def test_only_a_plain_head_is_fitted_again(training: str, workload: Workload, reads: bool) -> None:
    adjust = VariantStages(CARD, training, "int8", workload).compared
    assert (StageName.HEAD in {stage.name for stage in adjust.after}) == reads
    ships = next(stage for stage in VariantStages(CARD, training, "int8", workload).ships.after)
    assert (ships.cost_s < adjust.cost_s / 2) == reads
