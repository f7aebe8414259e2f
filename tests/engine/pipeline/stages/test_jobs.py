"""The work of the stages on a small graph, and a head of some images before one of all."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from PIL import Image
from scipy.special import softmax

from advisor.catalog import Catalogue
from advisor.compression._recipes.byte_grids import BYTES
from advisor.core import Status, UnknownFacts, parse
from advisor.datasets import CalibrationImages, Dataset, InputSpec, LabelledImage
from advisor.datasets._dataset import compute_fingerprint
from advisor.datasets._split import draw_split
from advisor.engine import Images, Progress, Role, resolve, run_search
from advisor.engine._decide import decide_run
from advisor.engine._pipeline import images as images_module
from advisor.engine._pipeline.stages import jobs
from advisor.engine._pipeline.stages.artefacts import STAND_IN_CROPS
from advisor.engine._pipeline.stages.backbone import CONVERT_LIMITS, convert_resources
from advisor.engine._pipeline.stages.unknown_jobs import HeadSpec, LearntImages, add_unknown, probe
from advisor.engine._space import image_limit as reading
from advisor.engine._space.candidates import Candidates
from advisor.engine._space.resolved import Resolved
from advisor.engine._space.resolving import resolve_cards
from advisor.measurement import predict_arrays
from advisor.store import sha256_json
from advisor.tflite import Metadata, read, with_probe
from advisor.training import extract_features
from tests.builders import present
from tests.makers.searches import SMALLEST, Searched
from tests.measurement import small_models
from tests.tflite.test_temperature import CLASSES, SIDE, classifier as temperature_classifier, form
from tests.training import nets

pytestmark = pytest.mark.integration

SMALL = Catalogue.load()["mobilenet_v1_0.25_128"]
SPEC = InputSpec(32, (127.5,) * 3, (127.5,) * 3)
METADATA = Metadata("small", ("a", "b", "c", "d"), (127.5,), (127.5,))


@pytest.fixture
def master(tmp_path: Path) -> Path:
    """A float file as the conversion of a card leaves it."""
    return small_models.saved(tmp_path, small_models.classifier(features=True), "master.tflite")


@pytest.fixture
def classifier(master: Path) -> Path:
    jobs.cut_output(master, "probabilities", master.with_name("classifier.tflite"))
    return master.with_name("classifier.tflite")


@pytest.mark.integration
def test_random_values_are_calibrated_briefly_to_the_same_operators_and_size(classifier: Path, tmp_path: Path) -> None:
    figures = {}
    for stands_in in (True, False):
        path = tmp_path / f"{stands_in}.tflite"
        crops = CalibrationImages((), SPEC, limit=STAND_IN_CROPS if stands_in else None)
        figures[stands_in] = jobs.compress_model(classifier, "int8", crops, METADATA, path, stands_in)

    brief, whole = (read(tmp_path / f"{stands_in}.tflite") for stands_in in (True, False))
    assert [operator.name for operator in brief.operators] == [operator.name for operator in whole.operators]
    assert abs(brief.size_bytes - whole.size_bytes) < 0.02 * whole.size_bytes
    assert figures[True]["arena_bytes"] == figures[False]["arena_bytes"]


@pytest.mark.integration
def test_a_form_made_from_a_shared_calibration_is_the_one_made_alone(classifier: Path, tmp_path: Path) -> None:
    folder, crops = tmp_path / "calibration", CalibrationImages((), SPEC, limit=STAND_IN_CROPS)
    folder.mkdir()
    jobs.prepare_calibration(classifier, (BYTES,), crops, folder, ())
    files = tuple(sorted(folder.iterdir()))
    arguments = (classifier, "int8", crops, METADATA)
    jobs.compress_model(*arguments, tmp_path / "shared.tflite", True, None, files)
    jobs.compress_model(*arguments, tmp_path / "alone.tflite", True)
    assert (tmp_path / "shared.tflite").read_bytes() == (tmp_path / "alone.tflite").read_bytes()


@pytest.mark.integration
def test_a_float_head_is_scored_from_features_as_its_file_is_on_images(master: Path, tmp_path: Path) -> None:
    paths = nets.stripes(tmp_path / "images", 6)[0]
    jobs.cut_output(master, "features", tmp_path / "backbone.tflite")
    features = extract_features(tmp_path / "backbone.tflite", paths, SPEC)
    np.save(tmp_path / "features.npy", features)
    weights = np.random.default_rng(0).normal(size=(features.shape[1], 3)).astype(np.float32)
    np.savez(tmp_path / "head.npz", weights=weights, bias=np.array([0.1, 0.0, -0.1], np.float32))
    jobs.join_head(tmp_path / "backbone.tflite", tmp_path / "head.npz", tmp_path / "joined.tflite")
    jobs.score_images(tmp_path / "joined.tflite", paths[2:5], SPEC, tmp_path / "file.npy")
    jobs.score_head([tmp_path / "features.npy"], [2, 3, 4], tmp_path / "head.npz", tmp_path / "head.npy")
    np.testing.assert_allclose(np.load(tmp_path / "head.npy"), np.load(tmp_path / "file.npy"), atol=1e-4)


@pytest.mark.integration
def test_an_image_that_changed_between_two_files_is_decoded_again(classifier: Path, tmp_path: Path) -> None:
    paths = nets.stripes(tmp_path / "images", 4)[0]
    found = []
    for number in range(3):
        if number == 2:
            paths[0].write_bytes(paths[3].read_bytes())
        jobs.score_images(classifier, paths, SPEC, tmp_path / "scores.npy")
        found.append(np.load(tmp_path / "scores.npy"))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[2][0], found[0][3])


@pytest.mark.integration
def test_the_download_of_random_values_is_not_weighed(classifier: Path, tmp_path: Path) -> None:
    arguments = (classifier, "float32", CalibrationImages((), SPEC), METADATA)
    assert "download_bytes" not in jobs.compress_model(*arguments, tmp_path / "a.tflite", True)
    assert "download_bytes" in jobs.compress_model(*arguments, tmp_path / "b.tflite")


def test_what_earlier_searches_kept_is_found_by_the_key_of_a_view() -> None:
    view = InputSpec(224, (123.68, 116.78, 103.94), (58.4, 57.12, 57.38))
    assert sha256_json(view.key) == "d92dbc066a1954b2e44322ddebf803df707757e0640198b1c9bf1804c915c78c"


def test_a_larger_model_may_take_more_memory_to_convert() -> None:
    cards = Catalogue.load()
    small, large = (convert_resources(cards[name]).limits for name in (SMALL.name, "inception_resnet_v2_299"))
    assert CONVERT_LIMITS.memory_bytes < small.memory_bytes < large.memory_bytes


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
        (tmp_path / "model.tflite").write_bytes(metadata.write_into(data))
        floats = predict_arrays(with_probe(temperature_classifier(1)), images(0, 320))
        own = predict_arrays(with_probe(data), images(0, 320))[VALIDATION]
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


def test_each_class_is_left_out_in_turn_and_a_float_file_has_the_figures_of_its_reference(make: Make) -> None:
    _, facts = make()
    assert facts.auroc == facts.float_auroc
    assert list(facts.by_class) == list(NAMES)
    assert present(facts.auroc).value == pytest.approx(np.mean([each.auroc.value for each in facts.by_class.values()]))
    assert {each.images for each in facts.by_class.values()} == {24}


def test_the_file_has_one_more_label_and_answers_noise_with_it(make: Make) -> None:
    file, facts = make("int8")
    metadata = present(Metadata.read(file.read_bytes()))
    assert metadata.labels == (*NAMES, "unknown")
    assert facts.size_bytes == file.stat().st_size
    known = predict_arrays(file.read_bytes(), images(1, 100)).argmax(axis=1)
    assert (known != CLASSES).mean() > 0.8


def test_a_class_of_that_name_gives_the_new_one_another_name(make: Make) -> None:
    _, facts = make(classes=("unknown", "b", "c", "d", "e"))
    assert facts.label == "other"


def test_two_classes_and_one_with_few_validation_images_are_not_left_out(make: Make) -> None:
    _, facts = make(labels=2)
    assert (facts.by_class, facts.auroc, facts.label) == ({}, None, "unknown")
    assert "e" not in make(labels=4)[1].by_class


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


def _images(counts: list[int], subset: int = 100) -> Images:
    root, names = Path("data"), tuple(f"class {label}" for label in range(len(counts)))
    made = tuple(
        LabelledImage(root / names[label] / f"{number}.jpg", label, f"{label}-{number}")
        for label, count in enumerate(counts)
        for number in range(count)
    )
    dataset = Dataset(root, names, made, (), compute_fingerprint(names, made))
    return Images(dataset, draw_split(dataset, 0), subset_images=subset)


@cache
def _asked() -> Resolved:
    return resolve_cards(resolve({"data": "x", "training": ["head"]}))


@given(st.lists(st.integers(8, 100), min_size=2, max_size=5), st.integers(10, 80))
def test_some_images_are_of_the_training_part_and_have_every_class(counts: list[int], wanted: int) -> None:
    images = _images(counts, wanted)
    chosen, train = images.part(Role.SUBSET), images.part(Role.TRAIN)
    assert set(chosen.indices) <= set(train.indices)
    assert set(chosen.labels) == set(range(len(counts)))
    assert len(chosen.indices) <= wanted + len(counts)
    share = min(1.0, wanted / len(train.indices))
    for label in range(len(counts)):
        assert chosen.labels.count(label) == pytest.approx(share * train.labels.count(label), abs=2)


@given(st.lists(st.integers(8, 100), min_size=2, max_size=5), st.integers(10, 80))
def test_fine_tuning_learns_from_some_images_and_is_judged_by_all_of_validation(counts: list[int], wanted: int) -> None:
    images = replace(_images(counts), tuned_images=wanted)
    learnt, validation = set(images.part(Role.TUNED).indices), set(images.part(Role.VALIDATION).indices)
    assert validation <= learnt <= set(images.part(Role.LEARNT).indices)
    assert len(learnt - validation) == pytest.approx(min(wanted, len(images.split.train)), abs=len(counts))


def test_the_plan_reads_as_many_images_as_the_first_look_has_and_a_small_set_needs_none() -> None:
    """Classes that a share leaves out have one image each, so there may be more images than were asked for."""
    images = _images([8, 60, 30, 9, 8], 4)
    plan = replace(_asked(), images=images).plan(Candidates((SMALL,), {}, {}))
    assert plan.workload.images[Role.SUBSET] == len(images.part(Role.SUBSET).indices) > 4
    assert replace(_asked(), images=_images([30, 30])).trainings == ("head",)


def test_a_card_that_passes_the_first_look_is_answered_by_all_images(
    warm_cache: Path, photos: Path, with_images: Searched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert with_images.code == 0, with_images.err  # the cache holds what learns from all images
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(warm_cache))
    monkeypatch.setattr(images_module, "LARGE", 20)
    monkeypatch.setattr(reading, "SUBSET_IMAGES", 12)
    few = {"candidates": [SMALLEST], "compressions": ["float16"], "threads": [1], "training": ["head"], "workers": 1}
    options = {"data": str(photos), **few}
    run = run_search(resolve({**options, "out": str(tmp_path)}), Progress()).run
    rows = {(e.configuration.training, e.configuration.compression): e for e in run.evaluations()}
    assert set(rows) == {("head_subset", "float32"), ("head", "float32"), ("head", "float16")}
    first = rows["head_subset", "float32"]
    assert first.status is Status.OK, first.reason
    assert first.holdout_accuracy is None
    assert first.accuracy.n == len(run.read_json("split.json")["validation"])
    decision = decide_run(run, run.evaluations(), resolve(options).question).decision
    assert {e.configuration.training for e in (decision.pick, *decision.front)} == {"head"}
    assert run.read_json("manifest.json")["space"]["training"] == ["head_subset", "head"]
