"""A file tells its task."""

from advisor.catalog.user_models.master import task_of
from advisor.tasks import CLASSIFICATION, DETECTION
from advisor.tflite.model import read
from tests.tflite.graphs import foreign_detector, tiny_features


def test_a_file_tells_its_task() -> None:
    assert task_of(read(foreign_detector())) == DETECTION.name
    assert task_of(read(tiny_features())) == CLASSIFICATION.name
