"""Images of squares, a small backbone, and its kept maps."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from advisor.training import LabelledImages
from advisor.training._on_maps import with_maps
from advisor.training._on_maps.changes import Objects
from advisor.training._on_maps.kept import KeptMaps, keep_maps
from tests.training.detection.squares import IMAGES, LEARNT, VIEW
from tests.training.nets import WIDE, halvings, uncompiled_steps


@pytest.fixture(scope="session")
def boxed(tmp_path_factory: pytest.TempPathFactory) -> LabelledImages:
    """A red or a green square on grey noise in each image."""
    folder, draw = tmp_path_factory.mktemp("squares"), np.random.default_rng(0)
    paths, objects = [], []
    for number in range(IMAGES):
        pixels = draw.integers(90, 140, (WIDE, WIDE, 3), dtype=np.uint8)
        side, label = int(draw.integers(16, 28)), number % 2
        top, left = (int(place) for place in draw.integers(0, WIDE - side, 2))
        pixels[top : top + side, left : left + side] = ((230, 30, 30), (30, 230, 30))[label]
        paths.append(folder / f"{number}.png")
        Image.fromarray(pixels).save(paths[-1])
        edges = np.array([[top, left, top + side, left + side]], np.float32) / WIDE
        objects.append(Objects(edges, np.array([label])))
    return LabelledImages(paths, objects)


@pytest.fixture(scope="session")
def backbone() -> Any:
    return with_maps(halvings(pad=True))


@pytest.fixture(scope="session")
def kept(boxed: LabelledImages, backbone: Any, tmp_path_factory: pytest.TempPathFactory) -> KeptMaps:
    learnt = LabelledImages(boxed.paths[:LEARNT], boxed.labels[:LEARNT])
    return keep_maps(backbone, learnt, VIEW, tmp_path_factory.mktemp("maps"), seed=0)


@pytest.fixture
def uncompiled() -> Iterator[None]:
    """Run steps without a graph."""
    with uncompiled_steps():
        yield
