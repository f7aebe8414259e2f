from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor.compression.recipes import recipe
from advisor.core.errors import UsageError
from advisor.core.file_features import FileFeatures, Traits
from advisor.devices.latency.features import Architecture, FeatureTable, ModelFeatures, model_features, read_features
from advisor.tflite.float16 import to_float16
from tests.builders import present
from tests.measurement.small_models import classifier, swish_net


@pytest.fixture(scope="module")
def found() -> FileFeatures:
    return read_features(classifier(32, 4))


def test_what_a_file_computes_is_counted(found: FileFeatures) -> None:
    assert found.form == "float32"
    assert found.input_size == 32
    assert found.macs > 0
    assert found.parameters > 0
    assert found.layers == sum(found.operators.values())
    assert found.arena_bytes > 0


def test_halved_weights_are_told_by_the_file(found: FileFeatures) -> None:
    halved = read_features(to_float16(classifier(32, 4)))
    assert halved.form == "float16"
    assert (halved.macs, halved.layers) == (found.macs, found.layers)


@pytest.mark.parametrize("name", ["weight_int8", "dynamic_int8"])
def test_the_form_of_a_recipe_s_file_is_the_recipe_s(name: str) -> None:
    images = np.random.default_rng(0).uniform(-1, 1, (4, 64, 64, 3)).astype(np.float32)
    assert read_features(recipe(name).apply(swish_net(64, 64), images)).form == name


def test_smooth_activations_are_seen(found: FileFeatures) -> None:
    assert read_features(swish_net()).traits.smooth > found.traits.smooth


def test_a_measured_model_is_taken_for_itself_only_where_the_file_computes_as_much(found: FileFeatures) -> None:
    listed = ModelFeatures("net", "nets", float(found.macs), 1e4, 32, 9.0)
    table = FeatureTable({"net": listed}, (Architecture("net", "nets", 9.0, Traits()),))
    same = present(model_features(found, "net", "nets", table))
    larger = present(model_features(replace(found, macs=2 * found.macs), "net", "nets", table))
    assert (same.name, same.family) == ("net", "nets")
    assert larger.name != "net"
    assert np.isfinite(larger.vector).all()


def test_a_file_that_computes_nothing_has_no_features(found: FileFeatures) -> None:
    assert model_features(replace(found, macs=0), "net", "nets", FeatureTable({}, ())) is None


def test_a_damaged_file_is_refused() -> None:
    with pytest.raises(UsageError):
        read_features(classifier(32, 4)[:200])
