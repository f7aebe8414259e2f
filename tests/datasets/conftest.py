"""Photographs that several tests of data sets compare."""

import pytest
from PIL import Image
from skimage import data as skimage_data


@pytest.fixture(scope="session")
def photographs() -> list[Image.Image]:
    arrays = (skimage_data.chelsea(), skimage_data.coffee(), skimage_data.rocket(), skimage_data.astronaut())
    return [Image.fromarray(array) for array in arrays]
