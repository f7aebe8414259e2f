from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.core import StageError
from advisor.datasets import InputSpec, load
from advisor.training import AS_IT_IS, CAPTURED, _batches as batches, _labels as module, extract_features, join_parts
from advisor.training._batches import Batches
from advisor.training._labels import doubt_labels, predict_left_out
from tests.builders import must_fail, write_file
from tests.datasets.folders import fill
from tests.measurement import small_models
from tests.tflite.graphs import Graph
from tests.training.head.blobs import blobs

VIEW = InputSpec(8, (127.5,) * 3, (127.5,) * 3)
SIZE = 20


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return fill(tmp_path_factory.mktemp("pictures"), 5)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that gives the mean colour of a normalised 8x8 image, as softmax logits."""
    return write_file(tmp_path_factory.mktemp("model") / "mean.tflite", _mean_colour())


def _mean_colour(extra_output: bool = False) -> bytes:
    build, image = small_models.Builder.with_image(8)
    features = build.mean(image)
    outputs = {"features": features} | ({"image_again": build.mean(image)} if extra_output else {})
    return build.finish({"image": image}, dict(sorted(outputs.items(), reverse=True)))


def test_each_row_is_what_the_model_sees_in_its_image(model: Path, images: list[Path]) -> None:
    found = extract_features(model, images, VIEW)
    expected = [VIEW.read(path).mean(axis=(0, 1)) for path in images]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_features_of_several_outputs_are_taken_or_no_rows(images: list[Path], model: Path, tmp_path: Path) -> None:
    several = tmp_path / "several.tflite"
    several.write_bytes(_mean_colour(extra_output=True))
    np.testing.assert_allclose(extract_features(several, images, VIEW), extract_features(model, images, VIEW))
    assert extract_features(model, [], VIEW).shape == (0, 3)


def test_a_wrong_size_is_refused(model: Path, images: list[Path]) -> None:
    must_fail(StageError, "8, 8", extract_features, model, images, replace(VIEW, size=16))


def test_a_damaged_model_and_outputs_without_the_name_are_refused(images: list[Path], tmp_path: Path) -> None:
    (tmp_path / "bad.tflite").write_bytes(b"nothing of the kind")
    must_fail(StageError, r"bad\.tflite", extract_features, tmp_path / "bad.tflite", images, VIEW)
    build, image = small_models.Builder.with_image(8)
    graph: Graph = build.made
    data = graph.finish({"image": image}, {"a": build.mean(image), "b": build.mean(image)})
    (tmp_path / "m.tflite").write_bytes(data)
    must_fail(StageError, "2 outputs", extract_features, tmp_path / "m.tflite", images, VIEW)


@pytest.mark.parametrize("rows", [None, [4, 0, 6, 3]])
def test_rows_of_parts_are_joined_in_the_order_asked_for(tmp_path: Path, rows: list[int] | None) -> None:
    whole = np.arange(21, dtype=np.float32).reshape(7, 3)
    parts = [tmp_path / "one.npy", tmp_path / "two.npy"]
    for part, values in zip(parts, (whole[:4], whole[4:]), strict=True):
        np.save(part, values)
    wanted = None if rows is None else np.array(rows)
    np.testing.assert_array_equal(join_parts(parts, wanted), whole if rows is None else whole[rows])


def test_a_row_that_no_part_has_is_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.zeros((4, 3), np.float32))
    with pytest.raises(IndexError, match="row 4 of features in parts with 4 rows"):
        join_parts([tmp_path / "one.npy"], np.array([0, 4]))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("pictures"), 1, suffix=".png")[0]


def test_views_are_the_same_each_time_and_differ_from_the_image_and_from_each_other(path: Path) -> None:
    np.testing.assert_array_equal(AS_IT_IS.apply(path, SIZE), load(path, SIZE))
    seen, again = ([view.apply(path, SIZE).tobytes() for view in (AS_IT_IS, *CAPTURED)] for _ in range(2))
    assert seen == again
    assert len(set(seen)) == 1 + len(CAPTURED)


@pytest.mark.parametrize("cached", [True, False])
def test_batches_hold_images_and_labels_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: bool) -> None:
    if not cached:
        monkeypatch.setattr(batches, "MAX_CACHE_BYTES", 0)
    paths = fill(tmp_path / "pictures", 7)
    made = Batches(paths, range(7), 16, tmp_path / "kept.npy")
    order = np.array([5, 1, 6, 0, 2])
    found = list(made.epoch(order, 2))
    assert [len(labels) for _, labels in found] == [2, 2, 1]
    assert np.concatenate([labels for _, labels in found]).tolist() == order.tolist()
    np.testing.assert_array_equal(found[1][0][0], load(paths[6], 16))
    assert (tmp_path / "kept.npy").exists() == cached


def test_the_cache_is_used_again_and_made_anew_for_another_shape(tmp_path: Path) -> None:
    paths = fill(tmp_path / "pictures", 3)
    Batches(paths, [0, 1, 0], 16, tmp_path / "kept.npy")
    ((images, _),) = Batches(paths[:2], [0, 1], 8, tmp_path / "kept.npy").epoch(np.arange(2), 8)
    assert images.shape == (2, 8, 8, 3)
    for path in paths:
        path.unlink()
    ((images, _),) = Batches(paths[:2], [0, 1], 8, tmp_path / "kept.npy").epoch(np.arange(2), 8)
    assert images.shape == (2, 8, 8, 3)


def _regression(landmarks: int) -> module._Regression:
    features, labels = blobs(80)
    return module._fit_regression((features / 8).astype(np.float32), np.eye(3)[labels], 0, landmarks)


@pytest.mark.parametrize("landmarks", [80, 30])
def test_a_row_and_a_group_get_the_answer_of_a_fit_to_the_others(landmarks: int) -> None:
    regression, group = _regression(landmarks), [3, 4, 40, 71]
    answers = regression.leave_each_out()
    for row in (0, 17, 79):
        np.testing.assert_allclose(answers[row], regression._fit_without([row])[0], atol=1e-6)
    np.testing.assert_allclose(regression.leave_out(group), regression._fit_without(group), atol=1e-6)


def test_a_group_of_more_than_the_landmarks_is_left_out_too() -> None:
    regression, group = _regression(30), list(range(0, 80, 2))
    kernel = module._compute_kernel(regression.rows, regression.places, group)
    others = np.setdiff1d(np.arange(80), group)
    rest = module._compute_kernel(regression.rows, regression.places, others)
    normal = regression.normal - kernel.T @ kernel
    np.testing.assert_allclose(
        regression.leave_out(group), kernel @ np.linalg.solve(normal, rest.T @ regression.wanted[others]), atol=1e-6
    )


def test_copies_with_one_wrong_label_do_not_vouch_for_each_other() -> None:
    features, labels = blobs(300)
    features[1:5], given = features[0], list(labels)
    given[0:5] = [(labels[0] + 1) % 3] * 5
    apart, joined = (predict_left_out(features, given, groups, 0).probabilities for groups in ((), [tuple(range(5))]))
    assert joined[:5, given[0]].max() < apart[:5, given[0]].min()


@pytest.mark.parametrize("count", [60, 15])
def test_probabilities_are_those_of_every_image_and_classes_of_five_are_enough(count: int) -> None:
    features, labels = blobs(count)
    probabilities = predict_left_out(features, labels, (), 0).probabilities
    assert probabilities.shape == (count, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-4)
    np.testing.assert_array_equal(probabilities, predict_left_out(features, labels, (), 0).probabilities)


def test_equal_images_and_classes_in_one_group_get_finite_probabilities() -> None:
    assert np.isfinite(predict_left_out(np.ones((20, 7), np.float32), [0, 1] * 10, [(0, 1, 2)], 0).probabilities).all()
    features, labels = blobs(30)
    for together in (list(range(1, 30, 3)), list(range(30))):
        assert np.isfinite(predict_left_out(features, labels, [together], 0).probabilities).all()


@pytest.mark.parametrize("landmarks", [300, 60])
def test_swapped_labels_are_named_with_the_right_one(landmarks: int) -> None:
    features, labels = blobs(300)
    given = list(labels)
    for index in range(0, 300, 20):
        given[index] = (labels[index] + 1) % 3
    found = doubt_labels(given, predict_left_out(features, given, (), 0, landmarks))
    swapped = set(range(0, 300, 20))
    assert len(swapped & {one.index for one in found}) >= 13
    assert len(found) <= 17
    assert all(one.suggested == labels[one.index] and one.better > one.given for one in found if one.index in swapped)


@pytest.mark.parametrize(("apart", "errors", "most"), [(2.0, 0.0, 0), (0.4, 0.1, 5), (0.3, 0.2, 5)])
def test_right_labels_are_left_alone_also_of_hard_classes(apart: float, errors: float, most: int) -> None:
    features, labels = blobs(300, apart=apart)
    predicted = predict_left_out(features, labels, (), 0)
    assert (predicted.probabilities.argmax(axis=1) != labels).mean() >= errors
    assert len(doubt_labels(labels, predicted)) <= most
