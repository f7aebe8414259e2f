"""What people set for TensorFlow and Keras does not reach the children."""

import json
from pathlib import Path

import pytest

from advisor.isolation import ChildPool
from advisor.isolation._lean_imports import OPTIONAL
from advisor.isolation._worker import without_settings

FUNCTIONS = "tests.isolation.functions"


def test_variables_of_tensorflow_and_keras_stay_outside() -> None:
    ours = {"TF_GPU_ALLOCATOR": "a", "HOME": "h"}
    assert without_settings({"TF_USE_LEGACY_KERAS": "1", "KERAS_BACKEND": "jax", "XLA_FLAGS": "-x", **ours}) == ours


def test_keras_comes_without_optional_packages_that_can_be_imported_later_and_reads_no_settings_of_people(
    starts_processes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".keras").mkdir()
    settings = {"floatx": "float16", "image_data_format": "channels_first", "backend": "torch", "epsilon": 1e-7}
    (tmp_path / ".keras" / "keras.json").write_text(json.dumps(settings))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    with ChildPool() as pool:
        assert pool.call(f"{FUNCTIONS}:loaded_with_keras", OPTIONAL) == set()
        assert pool.call(f"{FUNCTIONS}:can_be_imported", "pandas")
        assert pool.call("gc:get_freeze_count") > 100_000
        assert pool.call("gc:isenabled")
        assert pool.call(f"{FUNCTIONS}:keras_settings") == ("channels_last", "float32", "tensorflow")
