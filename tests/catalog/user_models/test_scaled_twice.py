"""A graph that scales its own input, described as one that does not, is taken with a warning."""

from pathlib import Path

import pytest
from ai_edge_litert.schema_py_generated import BuiltinOperator

from advisor.catalog._user_models.import_model import ModelDescription, add, inspect
from tests.catalog.user_models.models import CLASSES, SIZE, labels_file
from tests.measurement import small_models
from tests.requirements import shared_case

WIDE = (127.5,)
NONE = (0.0,)
ONE = (1.0,)
MINUS_ONE_TO_ONE = ((BuiltinOperator.MUL, 1 / 127.5), (BuiltinOperator.ADD, -1))


@pytest.mark.usefixtures("own_folders", "in_process")
@pytest.mark.parametrize(
    ("steps", "mean", "std", "warns"),
    [
        (MINUS_ONE_TO_ONE, WIDE, WIDE, True),
        (MINUS_ONE_TO_ONE, NONE, ONE, False),
        ((), WIDE, WIDE, False),
        (((BuiltinOperator.MUL, 2), (BuiltinOperator.ADD, -1)), NONE, (255.0,), False),
    ],
    ids=["twice", "by the graph", "by the flags", "to 0..1 by the flags, to -1..1 by the graph"],
)
def test_only_what_is_scaled_twice_is_warned_of(
    tmp_path: Path, steps: tuple[tuple[int, float], ...], mean: tuple[float, ...], std: tuple[float, ...], warns: bool
) -> None:
    file = tmp_path / "net.tflite"
    file.write_bytes(small_models.scaling(SIZE, CLASSES, *steps))
    with inspect(file) as inspected:
        said = ModelDescription(labels=str(labels_file(tmp_path)), mean=mean, std=std)
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
