"""The Core ML package of a bundle: its program, computed in numpy, gives the answers of the float file."""

import hashlib
import importlib.util
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from advisor.core import UsageError, install_extra
from advisor.datasets import InputSpec
from advisor.engine import LoadedRun
from advisor.integrations import coreml
from advisor.integrations.coreml import float_form
from advisor.isolation import ChildPool
from advisor.measurement import predict_pixels
from advisor.reporting import Bundle, ShippedModel, artefact_of
from advisor.reporting._bundle.bundle import export
from advisor.store import RunFolder
from tests.builders import must_fail
from tests.makers.bundles import Pixels, evaluation_of, export_form
from tests.measurement.small_models import OPERATORS, Builder
from tests.requirements import skip_or_fail
from tests.tflite.graphs import INT32

LABELS = ["red", "grün", "blue", "none"]


@pytest.fixture(scope="module")
def child(starts_processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChildPool]:
    if importlib.util.find_spec(coreml.PACKAGE) is None:
        skip_or_fail("coremltools is not installed")
    with ChildPool(tmp_path_factory.mktemp("coreml") / "log.txt") as pool:
        yield pool


@pytest.fixture(scope="module")
def made(child: ChildPool, trained: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return export_form(trained, "int8", tmp_path_factory.mktemp("coreml") / "bundle", targets=["coreml"])


def test_the_package_of_an_int8_candidate_answers_as_its_float_form_in_sixteen_bits(
    made: Bundle, child: ChildPool, trained: RunFolder, many_images: list[Pixels]
) -> None:
    images = np.stack(many_images[:3])
    labels, found = child.call("tests.integrations.coreml.mil:answers", made.path / coreml.FOLDER, images)
    floats = evaluation_of(trained, "float16")
    model = made.model
    view = InputSpec(model.size, (model.mean,) * 3, (model.std,) * 3)
    expected = predict_pixels(trained.path / floats.artefact, images, view)
    assert labels == list(model.labels)
    assert np.array_equal(found.argmax(axis=1), expected.argmax(axis=1))
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_the_package_says_that_it_was_not_run(made: Bundle, child: ChildPool) -> None:
    said = child.call("tests.integrations.coreml.mil:description", made.path / coreml.FOLDER)
    assert "Not run here: Core ML runs on Apple devices only." in said["about"]
    assert said["licence"] == made.evaluation.card_facts.licence
    assert said["input"] == ("image", made.model.size, made.model.size)
    assert said["outputs"] == ["classLabel", "classLabel_probs"]
    assert "- `coreml/`: a Core ML package" in (made.path / "README.md").read_text()


def test_the_same_run_gives_the_same_package_in_another_process(
    made: Bundle, child: ChildPool, trained: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coreml, "ChildPool", lambda *_, **_options: nullcontext(child))
    run, floats = LoadedRun.load(trained.path), evaluation_of(trained, "float32")
    again = coreml.coreml_package(ShippedModel.prepare(artefact_of(run, floats), floats.artefact), floats)
    sums = (made.path / "SHA256SUMS").read_text()
    for name, content in again.items():  # not the files: who reads a package writes its manifest again
        assert f"{hashlib.sha256(content).hexdigest()}  {name}\n" in sums


def test_each_operator_computes_what_litert_computes(child: ChildPool, tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(many_operators())
    images = np.random.default_rng(0).integers(0, 256, (4, 16, 16, 3)).astype(np.uint8)
    write(child, many_operators(), tmp_path / "net.mlpackage")
    labels, found = child.call("tests.integrations.coreml.mil:answers", tmp_path / "net.mlpackage", images)
    expected = predict_pixels(tmp_path / "net.tflite", images, InputSpec(16, (127.5,) * 3, (127.5,) * 3))
    assert labels == LABELS
    assert np.abs(expected - expected.mean(axis=1, keepdims=True)).max() > 0.05  # the classes differ
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_an_operator_that_is_not_translated_is_named(child: ChildPool, tmp_path: Path) -> None:
    made, image = Builder.with_image(16)
    bent = made.operator(OPERATORS.EXP, [made.convolution(image, 4)], (1, 16, 16, 4))
    data = made.finish({"image": image}, {"probabilities": made.head(made.mean(bent), 4)})
    with pytest.raises(UsageError, match="the model has a EXP, which is not translated") as raised:
        write(child, data, tmp_path / "net.mlpackage")
    assert "CONV_2D" in raised.value.hint


def test_a_run_without_a_float_form_says_what_to_search(trained: RunFolder) -> None:
    run, own = LoadedRun.load(trained.path), evaluation_of(trained, "int8")
    with pytest.raises(UsageError, match=r"the run has no float form of .* int8 is not translated"):
        float_form(replace(run, evaluations=(own,)), own)


def test_coremltools_is_an_extra(trained: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coreml, "PACKAGE", "coremltools_that_is_missing")
    raised = must_fail(UsageError, "--coreml needs", export, trained.path, tmp_path / "out", targets=["coreml"])
    assert install_extra("coreml") in raised.hint
    assert not (tmp_path / "out").exists()


def write(child: ChildPool, data: bytes, package: Path) -> None:
    child.call("advisor.integrations.coreml._convert:write", data, LABELS, 127.5, 127.5, "net", "MIT", package)


def many_operators() -> bytes:
    """A classifier with an operator of nearly every kind that is translated."""
    made, image = Builder.with_image(16)
    x = made.depthwise(made.convolution(image, 8, 3, stride=2))  # 8 x 8 x 8, padding SAME
    x = made.operator(OPERATORS.HARD_SWISH, [x], (1, 8, 8, 8))
    squeezed = made.operator(OPERATORS.MEAN, [x, ints(made, 1, 2)], (1, 1, 1, 8), schema.ReducerOptionsT(keepDims=True))
    gate = made.operator(OPERATORS.LOGISTIC, [made.convolution(squeezed, 8)], (1, 1, 1, 8))
    x = made.operator(OPERATORS.MUL, [x, gate], (1, 8, 8, 8), schema.MulOptionsT())
    x = made.operator(OPERATORS.PAD, [x, ints(made, (0, 0), (1, 0), (0, 1), (0, 0))], (1, 9, 9, 8))
    x = made.operator(OPERATORS.MAX_POOL_2D, [x], (1, 5, 5, 8), pool(3, 2))
    x = made.operator(OPERATORS.AVERAGE_POOL_2D, [x], (1, 5, 5, 8), pool(3, 1))
    x = made.operator(OPERATORS.RESHAPE, [x, ints(made, 1, 5, 5, 2, 4)], (1, 5, 5, 2, 4))
    x = made.operator(OPERATORS.TRANSPOSE, [x, ints(made, 0, 1, 2, 4, 3)], (1, 5, 5, 4, 2))
    x = made.operator(OPERATORS.RESHAPE, [x, ints(made, 1, 5, 5, 8)], (1, 5, 5, 8))
    begin, end, step = ints(made, 0, 1, 0, 0), ints(made, 1, 5, 4, 8), ints(made, 1, 1, 1, 1)
    x = made.operator(OPERATORS.STRIDED_SLICE, [x, begin, end, step], (1, 4, 4, 8), schema.StridedSliceOptionsT())
    first, second = made.made.tensor("first", (1, 4, 4, 4)), made.made.tensor("second", (1, 4, 4, 4))
    made.made.operator(OPERATORS.SPLIT, [ints(made, 3), x], [first, second], schema.SplitOptionsT(numSplits=2))
    scale = made.constant(np.array([1, -2, 3, -4], np.float32))
    second = made.operator(OPERATORS.SUB, [second, scale], (1, 4, 4, 4), schema.SubOptionsT())
    first = made.operator(OPERATORS.DIV, [first, scale], (1, 4, 4, 4), schema.DivOptionsT())
    x = made.operator(OPERATORS.CONCATENATION, [second, first], (1, 4, 4, 8), schema.ConcatenationOptionsT(axis=3))
    x = made.operator(OPERATORS.RELU, [x], (1, 4, 4, 8))
    flat = made.operator(OPERATORS.RESHAPE, [x, ints(made, 1, 128)], (1, 128))
    bent = made.operator(OPERATORS.TANH, [made.dense(flat, 8)], (1, 8))
    return made.finish({"image": image}, {"probabilities": made.softmax(made.dense(bent, 4), beta=1.5)})


def ints(made: Builder, *values: int | tuple[int, int]) -> int:
    return made.constant(np.array(values, np.int32), INT32)


def pool(size: int, stride: int) -> Any:
    return schema.Pool2DOptionsT(filterHeight=size, filterWidth=size, strideH=stride, strideW=stride, padding=0)
