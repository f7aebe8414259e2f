"""A graph that scales its own input, described as one that does not, is taken with a warning."""

from pathlib import Path

import pytest
from ai_edge_litert.schema_py_generated import BuiltinOperator

from advisor.catalog._user_models.import_model import ModelDescription, add, inspect
from tests.catalog.user_models.models import CLASSES, SIZE, labels_file
from tests.measurement import small_models
from tests.requirements import shared_case
from tests.tables import with_cases

WIDE = (127.5,)


@pytest.mark.usefixtures("own_folders", "in_process")
@with_cases
def test_only_what_is_scaled_twice_is_warned_of(
    tmp_path: Path, steps: list[tuple[str, float]], mean: float, std: float, warns: bool
) -> None:
    file = tmp_path / "net.tflite"
    operators = [(getattr(BuiltinOperator, name), constant) for name, constant in steps]
    file.write_bytes(small_models.scaling(SIZE, CLASSES, *operators))
    with inspect(file) as inspected:
        said = ModelDescription(labels=str(labels_file(tmp_path)), mean=(mean,), std=(std,))
        warning = add(inspected, said).warning
    assert ("the graph scales its input by itself (times 0.00784)" in warning) is warns


@pytest.mark.integration
@pytest.mark.usefixtures("own_folders", "in_process")
def test_a_keras_file_with_augmentation_and_rescaling_is_warned_of(tmp_path: Path) -> None:
    case = shared_case("k1_augment_rescale.keras")
    labels = tmp_path / "labels.txt"
    labels.write_text("a\nb\nc\n")
    with inspect(case) as inspected:
        warning = add(inspected, ModelDescription(labels=str(labels), mean=WIDE, std=WIDE)).warning
    assert "add it again with --mean 0 --std 1" in warning
