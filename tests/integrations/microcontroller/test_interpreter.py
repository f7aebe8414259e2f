"""Real files in the real interpreter of TensorFlow Lite Micro."""

from pathlib import Path

import numpy as np
import pytest

from advisor.core import Provenance, StageError, UsageError, install_extra
from advisor.integrations import microcontroller as micro
from advisor.integrations.microcontroller import check
from advisor.measurement import MicroCheck
from advisor.tflite import micro_arena, read
from tests.builders import must_fail, write_file
from tests.devices.requirements import require_micro
from tests.measurement import small_models
from tests.tflite.graphs import INT32, outside

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _interpreter() -> None:
    require_micro()


@pytest.fixture(scope="module")
def found(int8_model: Path) -> MicroCheck:
    return check(int8_model)


def written(tmp_path: Path, data: bytes) -> Path:
    return write_file(tmp_path / "model.tflite", data)


def test_an_int8_file_runs_with_its_arena_to_the_byte_as_litert_s_reference_kernels_do_and_a_float_file_too(
    found: MicroCheck, int8_model: Path, float_model: Path
) -> None:
    assert found.reason == ""
    assert found.operators == ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MEAN", "SOFTMAX")
    assert (found.arena.value, found.arena.provenance) == (found.arena_bytes, Provenance.MEASURED)
    assert found.arena.source.startswith("TensorFlow Lite Micro 0.")
    computed = micro_arena(read(int8_model))
    assert computed.activations == found.activation_bytes
    assert computed.total == pytest.approx(found.arena_bytes, rel=0.02)
    assert found.values == 4 * micro.INPUTS
    assert found.differences["reference"].differing == 0
    assert found.differences["default"].largest <= 1
    assert "of 16 outputs none differ from LiteRT's reference kernels" in found.agreement
    assert found.to_json()["runs"] is True
    assert check(float_model, inputs=1).differences["default"].differing == 0


def test_every_operator_that_is_missing_is_named(tmp_path: Path) -> None:
    builder, image = small_models.Builder.with_image(8)
    smooth = builder.operator(small_models.OPERATORS.GELU, [image], (1, 8, 8, 3))
    most = builder.constant(np.array(1, np.int32), INT32)
    top = builder.operator(small_models.OPERATORS.TOPK_V2, [smooth, most], (1, 8, 8, 3))
    refused = check(written(tmp_path, builder.finish({"image": image}, {"top": top})))
    assert refused.missing == ("GELU", "TOPK_V2")
    assert refused.reason.endswith("has no GELU, TOPK_V2")
    assert refused.arena_bytes == 0


def test_a_custom_operator_and_a_form_that_a_kernel_refuses_are_named(tmp_path: Path) -> None:
    assert check(written(tmp_path, small_models.unknown_operator())).missing == ("CUSTOM:Nobody",)
    refused = check(written(tmp_path, small_models.dynamic_int8(small_models.classifier())))
    assert "refuses it: CONV_2D (operator 0): Hybrid models are not supported" in refused.reason


def test_constants_behind_the_flatbuffer_are_refused_as_it_would_read_zeros(int8_model: Path, tmp_path: Path) -> None:
    data = int8_model.read_bytes()
    weights = next(index for index, tensor in enumerate(read(data).tensors) if tensor.is_constant)
    refused = check(written(tmp_path, outside(data, weights)))
    assert "it would read 1 of the file's constants as zeros" in refused.reason


def test_a_file_that_litert_refuses_is_an_error_with_its_words(tmp_path: Path) -> None:
    must_fail(StageError, r"model\.tflite: .*SPLIT", check, written(tmp_path, small_models.crashing()))


def test_without_the_extra_the_hint_says_what_to_install(int8_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(micro, "available", lambda: False)
    error = must_fail(UsageError, "TensorFlow Lite Micro is not installed", check, int8_model)
    assert install_extra("micro") in error.hint
