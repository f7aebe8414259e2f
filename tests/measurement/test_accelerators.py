"""The shipped descriptions of accelerators: read, refused with file and line, and what they say of real files."""

from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.devices import load_known_devices
from advisor.measurement import Delegation
from advisor.measurement._accelerators import Accelerator, read_accelerators, read_folder
from advisor.tflite import read
from tests.builders import must_fail
from tests.measurement import small_models
from tests.tables import with_cases

GOOD = (Path(__file__).parent / "good_accelerator.yaml").read_text(encoding="utf-8")


def read_text(folder: Path, text: str) -> None:
    (folder / "toy.yaml").write_text(text)
    read_folder(folder)


def test_the_issues_accelerators_are_found_with_sources_and_an_unknown_one_names_the_nearest() -> None:
    assert set(read_accelerators()) >= {"xnnpack", "nnapi", "coreml", "hexagon", "qnn", "edgetpu", "gpu"}
    assert all(each.sources and each.supported for each in read_accelerators().values())
    must_fail(UsageError, r"unknown accelerator 'edge-tpu' \(did you mean 'edgetpu'", Accelerator.find, "edge-tpu")


@with_cases
def test_a_target_uses_the_accelerators_of_its_runtime_unit_and_version(selector: str, names: list[str]) -> None:
    serving = Accelerator.list_serving(*load_known_devices(()).select(selector))
    assert [accelerator.name for accelerator in serving] == names


def test_the_edge_tpu_takes_int8_files_and_core_ml_float_ones(int8_model: Path, float_model: Path) -> None:
    rules = Accelerator.find("edgetpu")
    whole, nothing = (Delegation.of_operators(read(path), rules) for path in (int8_model, float_model))
    assert nothing.taken == 0
    assert whole.share == 1.0
    rules = Accelerator.find("coreml")
    assert Delegation.of_operators(read(int8_model), rules).taken == 0
    told = Delegation.of_operators(read(float_model), rules)
    assert [row.reason for row in told.refused] == ["MEAN with keep dims 0, 1 only"]
    assert told.partitions == 2


@pytest.mark.parametrize("keep_dims", [0, 1])
def test_a_reduction_is_judged_by_its_axes_and_what_it_keeps(keep_dims: int) -> None:
    where = {"axes": ["1,2"], "keep_dims": [keep_dims]}
    mean = {"names": ["MEAN"], "types": ["float32"], "where": where}
    toy = Accelerator.model_validate({"name": "toy", "title": "Toy", "sources": ["made up"], "operators": [mean]})
    told = Delegation.of_operators(read(small_models.classifier()), toy)
    assert ("MEAN" in {row.operator for row in told.refused}) is bool(keep_dims)


def test_nothing_behind_the_first_refused_operator_reaches_the_edge_tpu(tmp_path: Path) -> None:
    path = small_models.saved(tmp_path, small_models.quantized(small_models.swish_net(), tmp_path, 64), "swish.tflite")
    told = Delegation.of_operators(read(path), Accelerator.find("edgetpu"))
    first = next(row.index for row in told.refused if row.operator == "HARD_SWISH")
    behind = {row.index for row in told.refused if row.index >= first}
    assert behind == set(range(first, told.operators))


@with_cases
def test_a_fault_is_refused_with_file_and_line(tmp_path: Path, good: str, bad: str, line: int, message: str) -> None:
    read_text(tmp_path, GOOD)
    caught = must_fail(UsageError, "", read_text, tmp_path, GOOD.replace(good, bad, 1))
    assert caught.message.startswith(f"{tmp_path / 'toy.yaml'}:{line}: ")
    assert message in caught.message
