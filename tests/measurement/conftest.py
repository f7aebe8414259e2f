"""Small models of several forms, made once a test process."""

from pathlib import Path

import pytest

from tests.measurement import small_models


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmark")


@pytest.fixture(scope="session")
def float_model(folder: Path) -> Path:
    """A float classifier of (1, 32, 32, 3) into 4 classes."""
    path = folder / "classifier.tflite"
    path.write_bytes(small_models.classifier())
    return path


@pytest.fixture(scope="session")
def int8_model(folder: Path) -> Path:
    """The same as int8."""
    path = folder / "classifier_int8.tflite"
    path.write_bytes(small_models.quantized(small_models.classifier(), folder, 32))
    return path


@pytest.fixture(scope="session")
def swish_model(folder: Path) -> Path:
    """An int8 net whose HARD_SWISH XNNPACK does not take."""
    path = folder / "swish_int8.tflite"
    path.write_bytes(small_models.quantized(small_models.swish_net(), folder, 64))
    return path


@pytest.fixture(scope="session")
def brightness_model(folder: Path) -> Path:
    """A classifier of (1, 8, 8, 3) that answers which of red, green and blue is brightest."""
    path = folder / "brightness.tflite"
    path.write_bytes(small_models.brightness())
    return path
