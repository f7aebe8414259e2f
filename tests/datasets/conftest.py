"""Photographs that several tests of data sets compare."""

import pytest
from PIL import Image
from skimage import data as skimage_data

from advisor.isolation import IN_CHILD


@pytest.fixture(scope="session")
def photographs() -> list[Image.Image]:
    arrays = (skimage_data.chelsea(), skimage_data.coffee(), skimage_data.rocket(), skimage_data.astronaut())
    return [Image.fromarray(array) for array in arrays]


@pytest.fixture
def reads_in_children(monkeypatch: pytest.MonkeyPatch, starts_processes: None) -> None:
    """This process is no child."""
    monkeypatch.delenv(IN_CHILD)
