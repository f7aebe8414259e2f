"""A decoder learns to tell shapes, its file is what MediaPipe reads, and a search does the whole."""

import re
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from PIL import Image

from advisor.core import Status
from advisor.datasets import InputSpec, load
from advisor.integrations.browser import LITERT
from advisor.reporting import predict
from advisor.reporting._bundle.bundle import export
from advisor.reporting._bundle.check import other_mask
from advisor.store import RunFolder
from advisor.tasks._judge import PALETTE
from advisor.tasks.segmentation._drawing import colour_mask
from advisor.tasks.segmentation._jobs import SCORES, Segmenter, resize_labels
from advisor.tflite import Metadata
from advisor.training import Hyperparameters, LabelledImages, PackedMask, convert_to_flatbuffer, pixel_decoder
from advisor.training._on_maps import with_maps
from advisor.training._on_maps.changes import ImageSection
from advisor.training._on_maps.fit import fit
from advisor.training._on_maps.kept import keep_maps
from advisor.training._on_maps.pixels import _loss
from advisor.training._on_maps.train import join_head
from tests.makers.browsers import Browser, ask_page, require_runtime
from tests.makers.bundles import output_of, ran
from tests.makers.once import make_once
from tests.tasks.segmentation.shapes import CLASSES, folders, save, shapes
from tests.training.nets import WIDE, halvings

VIEW = InputSpec(64, (127.5,) * 3, (127.5,) * 3)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """A float file that learnt squares and bars on a small random backbone, and 12 images that it did not see."""
    assert VIEW.size == WIDE
    folder = tmp_path_factory.mktemp("shapes")
    made = [shapes(number, (WIDE, WIDE)) for number in range(44)]
    paths = [save(folder / f"{number}.png", pixels) for number, (pixels, _) in enumerate(made)]
    import keras

    keras.utils.set_random_seed(0)
    maps = with_maps(halvings(pad=True))
    head = pixel_decoder(WIDE, SCORES)([output.shape[1:] for output in maps.outputs], 3)
    learnt = LabelledImages(paths[:32], [PackedMask.of(mask) for _, mask in made[:32]])
    fit(head, keep_maps(maps, learnt, VIEW, folder, 0), Hyperparameters(24, 8, 8e-3, averaging=0.97))
    data = Metadata("shapes", CLASSES, VIEW.mean, VIEW.std).write_into(convert_to_flatbuffer(join_head(maps, head)))
    (folder / "shapes.tflite").write_bytes(data)
    return folder / "shapes.tflite", paths[32:]


@pytest.mark.integration
def test_a_decoder_learns_to_tell_the_pixels_of_two_shapes(trained: tuple[Path, list[Path]]) -> None:
    model, paths = trained
    run = Segmenter(model, VIEW)
    both = either = np.zeros(3)
    for path in paths:
        true, found = shapes(int(path.stem), (64, 64))[1], run(path)
        both = both + [((true == k) & (found == k)).sum() for k in range(3)]
        either = either + [((true == k) | (found == k)).sum() for k in range(3)]
    assert min(both / either) > 0.5


@pytest.mark.integration
def test_mediapipe_gives_the_same_mask_on_twelve_images(trained: tuple[Path, list[Path]]) -> None:
    mediapipe = pytest.importorskip("mediapipe", reason="mediapipe is not installed")
    vision = mediapipe.tasks.vision
    model, paths = trained
    run, base = Segmenter(model, VIEW), mediapipe.tasks.BaseOptions(model_asset_path=str(model))
    options = vision.ImageSegmenterOptions(base_options=base, output_category_mask=True)
    with vision.ImageSegmenter.create_from_options(options) as client:
        assert tuple(client.labels) == CLASSES
        for path in paths:
            image = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=load(path, 64))
            mask = np.asarray(client.segment(image).category_mask.numpy_view()).reshape(64, 64)
            np.testing.assert_array_equal(mask, run(path))


@pytest.mark.integration
def test_the_probabilities_of_a_pixel_sum_to_one(trained: tuple[Path, list[Path]]) -> None:
    run: Any = Interpreter(model_path=str(trained[0])).get_signature_runner()
    scores = run(image=VIEW.read(trained[1][0])[None])["scores"]
    assert scores.shape == (1, 64, 64, 3)
    np.testing.assert_allclose(scores.sum(axis=-1), 1.0, atol=1e-5)


@pytest.fixture(scope="module")
def run(shared_folder: Path, search_small: Callable[..., None]) -> RunFolder:
    """A search over images of squares and bars, by robust accuracy."""
    asked = {"task": "small-masks", "training": ["head"], "objective": "robust-accuracy"}
    data = make_once(shared_folder / "shapes", lambda folder: folders(folder, 36))
    runs = make_once(shared_folder / "segmentation", partial(search_small, data, **asked))
    return RunFolder((runs / "latest").resolve())


@pytest.mark.integration
def test_a_search_trains_judges_and_reports_a_segmenter(run: RunFolder) -> None:
    rows = {row.configuration.compression: row for row in run.evaluations()}
    assert [row.status for row in rows.values()] == [Status.OK] * 2
    judged = next(row for row in rows.values() if row.holdout_answers)
    assert set(judged.holdout_answers.per_class_recall) == set(CLASSES)
    assert set(judged.holdout_answers.figures) == {"Boundary F1", "Pixel accuracy"}
    assert judged.holdout_accuracy.low < judged.holdout_accuracy.value <= judged.holdout_accuracy.high
    page = (run.path / "report.html").read_text()
    assert "mean IoU" in page
    assert "Pixel by pixel" in page
    section = page[page.index("Pixel by pixel") :]
    shown = section.count('<figure class="first">')
    assert section.count('class="layer"') == 2 * shown > 0, "truth and answer stand side by side"


@pytest.mark.integration
def test_segmenters_may_be_chosen_by_robust_accuracy(run: RunFolder) -> None:
    row = next(row for row in run.evaluations() if row.configuration.compression == "float32")
    assert row.accuracy.source == "mean IoU validation part of --data under capture conditions, run in LiteRT"
    assert row.capture.plain.source == "mean IoU on the validation part of --data, run in LiteRT"
    conditions = [each.top1 for each in row.capture.by_condition]
    assert len(conditions) == 8
    assert row.capture.holdout.value == pytest.approx(sum(conditions) / 8, abs=0.01)
    assert "robust" in (run.path / "report.html").read_text()


@pytest.mark.integration
def test_a_photograph_is_drawn_with_its_mask(run: RunFolder, tmp_path: Path) -> None:
    photograph = save(tmp_path / "photo.png", shapes(1)[0])
    (answer,) = predict(run.path, [photograph], tmp_path / "drawn")
    assert not answer.error
    assert {each.label for each in answer.found} <= {"square", "bar"}
    drawn = np.asarray(Image.open(next((tmp_path / "drawn").iterdir())))
    assert drawn.shape == shapes(1)[0].shape


@pytest.mark.integration
def test_a_bundle_has_code_vectors_and_a_page_with_masks(run: RunFolder, browser: Browser, tmp_path: Path) -> None:
    require_runtime(LITERT)
    bundle = export(run.path, tmp_path / "bundle", targets=["android", "ios", "python", "web"])
    assert {"android/Segmenter.kt", "ios/Segmenter.swift", "python/segment.py"} <= set(bundle.files)
    photograph = save(tmp_path / "photo.png", shapes(1, (64, 64))[0])
    (answer,) = predict(run.path, [photograph])
    assert ran(bundle.path / "check.py")[0] == 0
    said = output_of(bundle.path / "python" / "segment.py", photograph)
    assert "% of the pixels are background" in said
    page, shares = ask_page(browser, bundle.path, photograph)
    assert set(page.inner_text("#answer").split(", ")) == {each.label for each in answer.found} or not answer.found
    own = {each.label: each.score for each in answer.found}
    np.testing.assert_allclose(shares[1:], [own.get(name, 0.0) for name in CLASSES[1:]], atol=0.01)
    size = page.evaluate("() => [document.getElementById('layer').width, document.getElementById('layer').height]")
    assert size == [64] * 2  # a small image gets the whole mask


@pytest.mark.integration
@pytest.mark.parametrize("side", [4, 12])
def test_the_loss_is_cross_entropy_of_adjusted_logits_and_what_dice_misses(side: int) -> None:
    import tensorflow as tf

    draw, frequent = np.random.default_rng(side), np.log(np.array([0.9, 0.08, 0.01, 0.01], np.float32))
    labels = draw.integers(0, 3, (2, 12, 12)).astype(np.uint8)  # the last class does not occur
    labels[:, :2] = 255
    logits = tf.constant(draw.normal(0, 3, (2, side, side, 4)).astype(np.float32))
    large = tf.image.resize(logits, (12, 12)).numpy()[labels != 255]
    own = labels[labels != 255]
    adjusted, odds = np.exp(large + frequent), np.exp(large)
    crossed = -np.log(adjusted[np.arange(len(own)), own] / adjusted.sum(axis=1)).mean()
    found, wanted = odds / odds.sum(axis=1, keepdims=True), np.eye(4)[own]
    dice = (2 * (found * wanted).sum(axis=0) + 1) / ((found + wanted).sum(axis=0) + 1)
    assert float(_loss(logits, tf.constant(labels), frequent)) == pytest.approx(crossed + (1 - dice[:3]).mean(), 1e-5)


def test_a_section_of_a_mask_is_ignored_outside_the_image() -> None:
    labels = np.arange(16, dtype=np.uint8).reshape(4, 4)
    whole = PackedMask.of(labels).within(ImageSection(0.0, 0.0, 1.0, 1.0, mirrored=True))
    np.testing.assert_array_equal(whole.labels, labels[:, ::-1])
    half = PackedMask.of(labels).within(ImageSection(-0.5, 0.0, 1.0, 1.0, mirrored=False)).labels
    assert (half[:2] == 255).all()
    np.testing.assert_array_equal(half[2:], labels[:2])


def test_a_mask_is_resized_by_the_nearest_pixel() -> None:
    np.testing.assert_array_equal(resize_labels(np.array([[0, 3]], np.uint8), (2, 4)), [[0, 0, 3, 3]] * 2)


def test_the_background_and_ignored_pixels_are_transparent() -> None:
    image = Image.open(BytesIO(colour_mask(np.array([[0, 1, 2, 255]], np.uint8), CLASSES))).convert("RGBA")
    pixels = np.asarray(image)[0]
    assert pixels[:, 3].tolist() == [0, 255, 255, 0]
    assert [f"#{bytes(pixel[:3]).hex()}" for pixel in pixels[1:3]] == list(PALETTE[:2])


def test_a_bundle_is_wrong_if_more_pixels_than_tolerated_have_another_class() -> None:
    scores = np.eye(3)[np.array([[0, 0, 1, 1, 2]] * 2)]
    row = {"mask": [0, 2, 1, 2, 2, 1, 0, 2, 1, 2, 2, 1]}
    assert other_mask([scores], row, 0.0) == ""
    row["mask"][1:4] = [1, 1, 3]
    assert other_mask([scores], row, 0.05) == "10.00 % of the pixels have another class"
    assert other_mask([scores], row, 0.2) == ""


def test_masks_have_the_colours_of_the_legend_of_a_data_check() -> None:
    style = (files("advisor.reporting") / "assets" / "sheet.css").read_text()
    assert tuple(re.findall(r"\.c\d \{ stroke: (#\w+); \}", style)) == PALETTE
