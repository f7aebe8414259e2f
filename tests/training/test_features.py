from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.core.errors import StageError
from advisor.datasets.images import InputSpec
from advisor.training.features import extract, joined
from tests.datasets.folders import fill
from tests.measurement import small_models
from tests.tflite.graphs import Graph

VIEW = InputSpec(8, (127.5,) * 3, (127.5,) * 3)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return fill(tmp_path_factory.mktemp("pictures"), 5)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that gives the mean colour of a normalised 8x8 image, as softmax logits."""
    path = tmp_path_factory.mktemp("model") / "mean.tflite"
    path.write_bytes(_mean_colour())
    return path


def _mean_colour(extra_output: bool = False) -> bytes:
    build = small_models.Builder()
    image = build.input(8)
    features = build.mean(image)
    outputs = {"features": features} | ({"image_again": build.mean(image)} if extra_output else {})
    return build.finish({"image": image}, dict(sorted(outputs.items(), reverse=True)))


def test_each_row_is_what_the_model_sees_in_its_image(model: Path, images: list[Path]) -> None:
    found = extract(model, images, VIEW)
    expected = [VIEW.read(path).mean(axis=(0, 1)) for path in images]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_of_several_outputs_the_features_are_taken(images: list[Path], model: Path, tmp_path: Path) -> None:
    several = tmp_path / "several.tflite"
    several.write_bytes(_mean_colour(extra_output=True))
    np.testing.assert_allclose(extract(several, images, VIEW), extract(model, images, VIEW))


def test_no_images_give_no_rows(model: Path) -> None:
    assert extract(model, [], VIEW).shape == (0, 3)


def test_a_wrong_size_is_refused(model: Path, images: list[Path]) -> None:
    with pytest.raises(StageError, match="8, 8"):
        extract(model, images, replace(VIEW, size=16))


def test_a_damaged_model_is_refused(images: list[Path], tmp_path: Path) -> None:
    (tmp_path / "bad.tflite").write_bytes(b"nothing of the kind")
    with pytest.raises(StageError, match=r"bad\.tflite"):
        extract(tmp_path / "bad.tflite", images, VIEW)


def test_outputs_without_the_name_are_refused(images: list[Path], tmp_path: Path) -> None:
    build = small_models.Builder()
    image = build.input(8)
    graph: Graph = build.made
    (tmp_path / "m.tflite").write_bytes(
        graph.finish({"image": image}, {"a": build.mean(image), "b": build.mean(image)})
    )
    with pytest.raises(StageError, match="2 outputs"):
        extract(tmp_path / "m.tflite", images, VIEW)


@pytest.mark.parametrize("rows", [None, [4, 0, 6, 3]])
def test_rows_of_parts_are_joined_in_the_order_asked_for(tmp_path: Path, rows: list[int] | None) -> None:
    whole = np.arange(21, dtype=np.float32).reshape(7, 3)
    parts = [tmp_path / "one.npy", tmp_path / "two.npy"]
    for part, values in zip(parts, (whole[:4], whole[4:]), strict=True):
        np.save(part, values)
    wanted = None if rows is None else np.array(rows)
    np.testing.assert_array_equal(joined(parts, wanted), whole if rows is None else whole[rows])


def test_a_row_that_no_part_has_is_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.zeros((4, 3), np.float32))
    with pytest.raises(IndexError, match="row 4 of features in parts with 4 rows"):
        joined([tmp_path / "one.npy"], np.array([0, 4]))
