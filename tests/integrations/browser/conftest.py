"""The file that connections measure."""

from pathlib import Path

import pytest

from tests.measurement import small_models


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "classifier.tflite"
    path.write_bytes(small_models.classifier())
    return path
