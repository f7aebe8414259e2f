"""An ONNX classifier becomes a float ``.tflite`` that computes the same, without transposes."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from advisor.catalog import Catalogue
from advisor.catalog._user_models.comparison import compare_conversion
from advisor.catalog._user_models.formats import PACKAGES, OnnxOriginal, as_tflite
from advisor.catalog._user_models.import_model import ModelDescription, add, inspect
from advisor.catalog._user_models.onnx_files import ImageInput
from advisor.core import UsageError
from advisor.tflite import Model, read
from tests.builders import must_fail
from tests.catalog.user_models.onnx_graphs import (
    CLASSES,
    IMAGE,
    NODES,
    SIDE,
    network,
    patched,
    saved,
    shuffled,
    split_after_a_sum,
    weights,
)
from tests.requirements import skip_or_fail

pytestmark = pytest.mark.integration


@pytest.fixture(scope="session")
def packages(shared_folder: Path) -> Path:
    """A cache with onnx2tf for all workers of the test run."""
    cache = shared_folder / "onnx2tf"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADVISOR_CACHE_DIR", str(cache))
        try:
            PACKAGES.import_path()
        except UsageError as error:
            skip_or_fail(f"the package index is out of reach: {error.message}")
    return cache


@pytest.fixture
def own_folders(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the test's own, and the cache with onnx2tf."""
    monkeypatch.setenv("ADVISOR_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(packages))


@pytest.fixture(scope="module")
def onnx2tf(packages: Path) -> Iterator[None]:
    """The converter in this process: a child for every test would take five seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADVISOR_CACHE_DIR", str(packages))
        folder = PACKAGES.import_path().split(os.pathsep)[0]
    sys.path.append(folder)
    yield
    sys.path.remove(folder)


def converted(model: Any, folder: Path, size: int | None = None) -> bytes:
    """The ``.tflite`` of a model, which was compared with ONNX Runtime."""
    data, conversion = as_tflite(saved(model, folder), size)
    assert (conversion.images, conversion.agreement, conversion.transposes) == (32, 1.0, 0)
    assert conversion.difference < 1e-5
    return data


@pytest.fixture(scope="module")
def plain(onnx2tf: None, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The ``.tflite`` of the plain network, whose size was open."""
    depth = sys.getrecursionlimit()
    data = converted(network(("n", 3, "h", "w")), tmp_path_factory.mktemp("plain"), SIDE)
    assert sys.getrecursionlimit() == depth
    return data


def kinds(model: Model) -> list[str]:
    return [operator.name for operator in model.operators]


def test_a_classifier_computes_the_same_in_nhwc_and_another_number_of_scores_is_told(plain: bytes) -> None:
    model = read(plain)
    assert model.inputs[0].shape == (1, SIDE, SIDE, 3)
    assert kinds(model) == ["PAD", "CONV_2D", "DEPTHWISE_CONV_2D", "MEAN", "RESHAPE", "FULLY_CONNECTED"]
    shorter = network(nodes=NODES[:5], outputs=("f",))
    with pytest.raises(UsageError, match="it gives 8 scores an image, and 5 after the conversion"):
        compare_conversion(OnnxOriginal(shorter, ImageInput("image", True, SIDE)), plain, "net.onnx")


def test_shuffled_channels_hard_swish_and_a_gate_leave_no_transpose(onnx2tf: None, tmp_path: Path) -> None:
    found = kinds(read(converted(shuffled(), tmp_path)))
    assert found.count("HARD_SWISH") == 1
    assert "RELU_0_TO_1" not in found


@pytest.mark.parametrize("model", [patched(), split_after_a_sum()], ids=["patches", "split after a sum"])
def test_blocks_with_attention_compute_the_same(onnx2tf: None, tmp_path: Path, model: Any) -> None:
    _, conversion = as_tflite(saved(model, tmp_path), None)
    assert (conversion.images, conversion.agreement) == (32, 1.0)
    assert conversion.difference < 1e-5


def test_a_transpose_that_is_needed_is_counted_with_its_share(onnx2tf: None, tmp_path: Path) -> None:
    nodes = (*NODES[:3], helper.make_node("Flatten", ["c2"], ["f"]), helper.make_node("Gemm", ["f", "k"], ["scores"]))
    many = weights("k", 8 * 16 * 16, CLASSES)
    _, conversion = as_tflite(saved(network(nodes=nodes, more=(many,)), tmp_path), None)
    assert (conversion.agreement, conversion.transposes) == (1.0, 1)
    assert 0.05 < conversion.transposed < 0.5


def test_maps_of_scores_are_refused(own_folders: None, onnx2tf: None, in_process: None, tmp_path: Path) -> None:
    model = network(nodes=(*NODES[:3],), outputs=())
    model.graph.output.append(helper.make_tensor_value_info("c2", 1, [1, 8, 16, 16]))
    with pytest.raises(UsageError, match="is not one row of scores"), inspect(saved(model, tmp_path)):
        pass


def test_a_card_says_how_its_file_was_converted(own_folders: None, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("a\nb\nc\nd\ne\n", encoding="utf-8")
    given = ModelDescription(labels=str(tmp_path / "labels.txt"), mean=(127.5,), std=(127.5,))
    with inspect(saved(network(), tmp_path)) as inspected:
        added = add(inspected, given)
    card = Catalogue.load().card("net")
    assert card == added.card
    assert (card.input_size, card.classes, added.features, card.note) == (SIDE, CLASSES, 8, "made from net.onnx")
    assert card.conversion.converter.startswith("onnx2tf 2.")
    assert card.conversion.runtime.startswith("onnxruntime 1.")
    assert (card.conversion.agreement, card.conversion.transposes) == (1.0, 0)


@pytest.mark.parametrize(("name", "operator"), [("first", "Conv"), ("classifier", "Gemm")])
def test_a_difference_names_the_layer_where_it_begins(plain: bytes, name: str, operator: str) -> None:
    other = network()
    place = ("first", "", "second", "classifier").index(name)
    tensor = other.graph.initializer[place]
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1.5), tensor.name))
    original = OnnxOriginal(other, ImageInput("image", True, SIDE))
    with pytest.raises(UsageError, match=f"more than 0.001: it begins at the layer '{name}' \\({operator}\\)"):
        compare_conversion(original, plain, "net.onnx")


def test_a_missing_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    (tmp_path / "net.onnx").write_bytes(b"x")
    raised = must_fail(UsageError, "the package onnx is missing", as_tflite, tmp_path / "net.onnx", None)
    assert "[onnx]" in raised.hint


def test_a_graph_that_the_converter_cannot_take_is_one_line(onnx2tf: None, tmp_path: Path) -> None:
    nodes = (*NODES[:1], helper.make_node("Det", ["c1"], ["d"]), *NODES[1:])
    with pytest.raises(UsageError) as raised:
        as_tflite(saved(network(shape=IMAGE, nodes=nodes, outputs=("d",)), tmp_path), None)
    assert "\n" not in raised.value.message


def test_checks_come_before_the_converter(in_process: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    model = network((1, 3, SIDE, 2 * SIDE))
    with pytest.raises(UsageError, match="pixels is no square"), inspect(saved(model, tmp_path)):
        pytest.fail("it was converted")
    with pytest.raises(UsageError, match="onnx2tf cannot be installed"), inspect(saved(network(), tmp_path)):
        pytest.fail("it was converted")
