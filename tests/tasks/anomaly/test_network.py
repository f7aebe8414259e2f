"""What is usual is learnt, told from what is not, and shipped."""

import base64
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from PIL import Image

from advisor.core import Status
from advisor.datasets import InputSpec, load
from advisor.engine import Part
from advisor.integrations.browser import LITERT
from advisor.reporting import Answerer, predict
from advisor.reporting._bundle.bundle import export
from advisor.store import RunFolder
from advisor.tasks.anomaly._drawing import heat_png
from advisor.tasks.anomaly._jobs import HEAT, Marker, spoil_image
from advisor.tasks.anomaly._judging import Marked, pixel_auroc
from advisor.training._usual_maps import Scale, Usual, with_distances
from tests.makers.browsers import Browser, ask_page, require_runtime
from tests.makers.bundles import output_of, ran
from tests.makers.once import make_once
from tests.tasks.anomaly.parts import part, parts


def gaussians(count: int = 200, seed: int = 0) -> np.ndarray:
    """Maps of 4 x 5 places and three channels, of another mean and spread at each place."""
    draw = np.random.default_rng(seed)
    places = np.random.default_rng(99)
    means, spread = places.normal(0, 3, (4, 5, 3)), places.uniform(0.2, 2, (4, 5, 3))
    return (means + spread * draw.normal(size=(count, 4, 5, 3))).astype(np.float32)


def test_distances_are_those_of_mahalanobis_at_each_place_and_the_unlike_one_is_the_hottest() -> None:
    usual = Usual.of(gaussians(600), np.eye(3, dtype=np.float32))
    apart = np.einsum("nhwd,hwde->nhwe", gaussians(300, 1) - usual.means, usual.whitening)
    assert (apart**2).sum(axis=-1).mean() == pytest.approx(3.0, rel=0.15)
    usual = Usual.of(gaussians(), np.eye(3, dtype=np.float32))
    odd = gaussians(1, 2)
    odd[0, 2, 3] += 20
    assert np.unravel_index(usual.heat(odd)[0].argmax(), (4, 5)) == (2, 3)


def test_what_changes_in_all_places_at_once_is_usual() -> None:
    light = np.random.default_rng(5).normal(0, 3, (200, 1, 1, 1)).astype(np.float32)
    usual = Usual.of(gaussians(200) + light, np.eye(3, dtype=np.float32))
    plain, bright, odd = (gaussians(1, 2) for _ in range(3))
    bright += 9
    odd[0, 2, 3] += 9
    plain_heat, bright_heat, odd_heat = (usual.heat(each).max() for each in (plain, bright, odd))
    assert bright_heat < 1.5 * plain_heat
    assert odd_heat > 2 * plain_heat


@pytest.mark.integration
def test_a_file_computes_the_same_as_the_gaussians() -> None:
    import keras

    usual = Usual.of(gaussians(), np.eye(3, dtype=np.float32))
    image = keras.Input((4, 5, 3), batch_size=1)
    file = with_distances(keras.Model(image, keras.layers.Activation("linear")(image)), usual, Scale(0.5, 2.0), HEAT)
    new = gaussians(1, 4)
    over = np.maximum(usual.heat(new) - 0.5, 0) / 1.5
    np.testing.assert_allclose(file(new)["heat"][..., 0], over / (over + 1), rtol=1e-3)


def test_at_most_five_in_a_hundred_new_good_images_are_above_the_threshold() -> None:
    maps, projection = gaussians(300), np.eye(3, dtype=np.float32)
    scale = Scale.of(maps, range(300), projection, 0)
    heats = Usual.of(maps, projection).heat(gaussians(1000, 3)).max(axis=(1, 2))
    assert (heats > scale.most).mean() <= 0.05
    assert scale.usual < scale.most


def test_near_copies_count_once_for_the_threshold() -> None:
    maps, projection = gaussians(60), np.eye(3, dtype=np.float32)
    once = Scale.of(maps, range(60), projection, 0)
    twice = Scale.of(np.concatenate([maps, maps]), [*range(60), *range(60)], projection, 0)
    assert twice.most == pytest.approx(once.most, rel=0.1)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=15), st.lists(st.floats(0, 1), min_size=1, max_size=15))
def test_the_mean_of_the_shares_is_the_auroc(good: list[float], faulty: list[float]) -> None:
    marked = Marked(np.array(good), np.array(faulty), np.zeros((0, 1, 1)), np.zeros(0, int))
    assert np.mean(marked.shares) == pytest.approx(marked.figure.value, abs=1e-9)


def judged(folder: Path, heats: np.ndarray, drawn: np.ndarray, labels: tuple[int, ...]) -> tuple[Path, Part]:
    """Write the answers of a file; the masks of faulty images are their left halves."""
    paths, masks = [], []
    for place, label in enumerate(labels):
        paths.append(folder / f"{place}.png")
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(paths[-1])
        masks.append(str(folder / f"mask{place}.png") if label else "")
        if label:
            Image.fromarray(np.arange(8)[None] < np.full((8, 1), 4)).save(masks[-1])
    np.savez(folder / "heats.npz", own=heats.astype(np.float32), drawn=drawn.astype(np.float32))
    part = Part(tuple(range(len(labels))), tuple(paths), labels, "", objects=tuple(masks))
    return folder / "heats.npz", part


def test_faulty_images_are_compared_with_good_ones_and_without_any_drawn_faults(tmp_path: Path) -> None:
    heats = np.array([0.1, 0.6, 0.3, 0.9])[:, None, None] * np.ones((4, 2, 2))
    marked = Marked.of(*judged(tmp_path, heats, heats, (0, 0, 1, 1)))
    assert marked.figure.value == 0.75
    heats = np.array([0.1, 0.6])[:, None, None] * np.ones((2, 2, 2))
    assert Marked.of(*judged(tmp_path, heats, heats + 0.55, (0, 0))).figure.value == 1.0


def pixels(file: Path, part: Part) -> float | None:
    return pixel_auroc(Marked.of(file, part).heats, part)


def test_pixels_are_ranked_by_their_place(tmp_path: Path) -> None:
    heat = np.repeat([[0.9, 0.9, 0.1, 0.1]], 4, axis=0)
    right = judged(tmp_path, np.stack([heat, heat * 0 + 0.05]), np.zeros((2, 1, 1)), (1, 0))
    assert pixels(*right) > 0.95
    wrong = judged(tmp_path, np.stack([heat[:, ::-1], heat * 0 + 0.05]), np.zeros((2, 1, 1)), (1, 0))
    assert pixels(*wrong) < 0.75
    assert pixels(*judged(tmp_path, heat[None], np.zeros((1, 1, 1)), (0,))) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_drawn_fault_changes_a_small_part_of_an_image(seed: int) -> None:
    pixels = part(3)[0]
    found = spoil_image(pixels, seed)
    changes = np.abs(found.astype(int) - pixels)
    changed = changes.any(axis=-1)
    assert 0 < changed.mean() < 0.2
    assert changes[changed].mean() > 1.0
    np.testing.assert_array_equal(found, spoil_image(pixels, seed))


def test_a_usual_place_is_clear_and_an_anomaly_is_not() -> None:
    alpha = np.asarray(Image.open(BytesIO(heat_png(np.array([[0.0, 0.25, 0.5, 1.0]])))))[0, :, 3]
    assert alpha.tolist()[:2] == [0, 0]
    assert alpha[3] == 255 > alpha[2] > 100


@pytest.fixture(scope="module")
def run(shared_folder: Path, search_small: Callable[..., None]) -> RunFolder:
    """A search over images of parts."""
    data = make_once(shared_folder / "parts", parts)
    runs = make_once(shared_folder / "anomaly", partial(search_small, data, task="anomaly", stop_below="never"))
    return RunFolder((runs / "latest").resolve())


@pytest.mark.integration
def test_a_search_learns_judges_and_reports(run: RunFolder) -> None:
    rows = {row.configuration.compression: row for row in run.evaluations()}
    assert [row.status for row in rows.values()] == [Status.OK] * 2
    assert abs(rows["int8"].drop.value) < 2
    assert rows["int8"].size.value < rows["float32"].size.value / 3
    judged = next(row for row in rows.values() if row.holdout_answers)
    assert judged.holdout_accuracy.value > 90
    assert set(judged.holdout_answers.figures) == {"False alarms", "Faults found", "Pixel AUROC"}
    assert set(judged.holdout_answers.per_class_recall) == {"spot"}
    page = (run.path / "report.html").read_text()
    assert "AUROC" in page
    assert "Pixel by pixel" in page
    assert 'class="layer"' in page


@pytest.mark.integration
def test_the_hottest_place_is_the_fault(run: RunFolder, tmp_path: Path) -> None:
    row = next(row for row in run.evaluations() if row.configuration.compression == "float32")
    marker = Marker(run.path / row.artefact, InputSpec(96, (127.5,) * 3, (127.5,) * 3))
    pixels, mask = part(900, spot=True)
    path = tmp_path / "spot.png"
    Image.fromarray(pixels).save(path)
    heat = marker.answer_for((load(path, 96).astype(np.float32) - 127.5) / 127.5)[..., 0]
    y, x = (np.array(np.unravel_index(heat.argmax(), heat.shape)) + 0.5) * 64 / heat.shape[0]
    rows, columns = np.nonzero(mask)
    assert np.hypot(y - rows.mean(), x - columns.mean()) < 10


@pytest.mark.integration
def test_a_page_shows_what_each_form_answers(run: RunFolder) -> None:
    stored = BytesIO()
    Image.fromarray(part(902, spot=True)[0]).save(stored, "PNG")
    with Answerer() as answerer:
        found = answerer.answer(run.path, stored.getvalue())
    assert found.forms[0].form == "float32"
    for each in found.forms:
        assert each.answer in ("anomaly", "good")
        assert Image.open(BytesIO(base64.b64decode(each.layer))).mode == "RGBA"
    assert found.agree == (len({each.answer for each in found.forms}) == 1)


@pytest.mark.integration
def test_a_bundle_has_code_vectors_and_a_page(run: RunFolder, browser: Browser, tmp_path: Path) -> None:
    require_runtime(LITERT)
    bundle = export(run.path, tmp_path / "bundle", targets=["android", "ios", "python", "web"])
    assert {"android/AnomalyDetector.kt", "ios/AnomalyDetector.swift", "python/anomaly.py"} <= set(bundle.files)
    photograph = tmp_path / "photo.png"
    Image.fromarray(part(901, spot=True)[0]).save(photograph)
    (answer,) = predict(run.path, [photograph], tmp_path / "drawn")
    assert answer.answer in ("anomaly", "good")
    assert answer.found[0].label == "anomaly"
    assert ran(bundle.path / "check.py")[0] == 0
    said = output_of(bundle.path / "python" / "anomaly.py", photograph)
    assert f"{answer.answer}, score {answer.found[0].score:.2f}" in said
    page, scores = ask_page(browser, bundle.path, photograph)
    assert page.inner_text("#answer") == answer.answer
    assert scores == pytest.approx([answer.found[0].score], abs=0.02)
