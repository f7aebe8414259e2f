from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advisor.datasets.images import InputSpec, load
from advisor.training.features import AS_IT_IS, CAPTURED, extract
from tests.datasets.folders import fill
from tests.measurement import small_models

SIZE = 20


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("pictures"), 1, suffix=".png")[0]


def test_as_it_is_is_the_plain_image(path: Path) -> None:
    np.testing.assert_array_equal(AS_IT_IS.apply(path, SIZE), load(path, SIZE))


def test_a_view_is_the_same_each_time(path: Path) -> None:
    for view in CAPTURED:
        np.testing.assert_array_equal(view.apply(path, SIZE), view.apply(path, SIZE))


def test_features_are_those_of_the_view(path: Path, tmp_path: Path) -> None:
    build = small_models.Builder()
    image = build.input(8)
    (tmp_path / "m.tflite").write_bytes(build.finish({"image": image}, {"features": build.mean(image)}))
    view = CAPTURED[0]
    found = extract(tmp_path / "m.tflite", [path], InputSpec(8, (0.0,) * 3, (1.0,) * 3), augmentation=view)
    np.testing.assert_allclose(found[0], view.apply(path, 8).mean(axis=(0, 1)), rtol=1e-4)


def test_captured_views_differ_from_the_image_and_from_each_other(path: Path) -> None:
    seen = {view.apply(path, SIZE).tobytes() for view in (AS_IT_IS, *CAPTURED)}
    assert len(seen) == 1 + len(CAPTURED)
