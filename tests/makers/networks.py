"""Small models of several forms, made once a test run."""

from pathlib import Path

import pytest

from tests.measurement import small_models


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmark")


@pytest.fixture(scope="session")
def float_model(model_folder: Path) -> Path:
    """A float classifier of (1, 32, 32, 3) into 4 classes."""
    return small_models.saved(model_folder, small_models.classifier(), "classifier.tflite")


@pytest.fixture(scope="session")
def int8_model(model_folder: Path) -> Path:
    """The same as int8."""
    return small_models.saved(
        model_folder, small_models.quantized(small_models.classifier(), model_folder, 32), "classifier_int8.tflite"
    )


@pytest.fixture(scope="session")
def swish_model(model_folder: Path) -> Path:
    """An int8 net whose HARD_SWISH XNNPACK does not take."""
    return small_models.saved(
        model_folder, small_models.quantized(small_models.swish_net(), model_folder, 64), "swish_int8.tflite"
    )


@pytest.fixture(scope="session")
def brightness_model(model_folder: Path) -> Path:
    """A classifier of (1, 8, 8, 3) that answers which of red, green and blue is brightest."""
    return small_models.saved(model_folder, small_models.brightness(), "brightness.tflite")
