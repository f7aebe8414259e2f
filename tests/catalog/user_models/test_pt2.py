"""A program of PyTorch becomes a card that computes the same; without PyTorch its extra is named."""

import importlib.util
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.catalog import convert, fetch_weights, run
from advisor.catalog._user_models.import_model import ModelDescription, add, inspect
from advisor.catalog._user_models.torch_programs import TorchProgram
from advisor.core import UsageError, install_extra
from advisor.store import FetchOptions
from tests.builders import must_fail
from tests.catalog.user_models.models import CLASSES, SIZE, labels_file
from tests.catalog.user_models.pt2_files import Program, members, write

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_CONFIG_DIR", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier with settled statistics, as ``net.pt2``."""
    for name in ("torch", "onnxscript"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed; continuous integration cannot install PyTorch")
    import torch

    torch.manual_seed(0)
    network = module(torch)
    with torch.no_grad():
        network.train()(torch.randn(64, 3, SIZE, SIZE))
    file = tmp_path_factory.mktemp("programs") / "net.pt2"
    torch.export.save(torch.export.export(network.eval(), (torch.zeros(1, 3, SIZE, SIZE),)), str(file))
    return file


def module(torch: Any) -> Any:
    """Two convolutions, one of them depthwise, pooling and a linear classifier."""
    layers = torch.nn
    return layers.Sequential(
        layers.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
        layers.BatchNorm2d(8),
        layers.Hardswish(),
        layers.Conv2d(8, 8, 3, padding=1, groups=8),
        layers.ReLU(inplace=True),
        layers.AdaptiveAvgPool2d(1),
        layers.Flatten(),
        layers.Dropout(0.2),
        layers.Linear(8, CLASSES),
    )


def image() -> Any:
    return np.random.default_rng(1).normal(size=(1, SIZE, SIZE, 3)).astype(np.float32)


@pytest.mark.slow
def test_a_program_becomes_a_card_that_computes_what_pytorch_does(program: Path, tmp_path: Path) -> None:
    with inspect(program) as inspected:
        card = add(inspected, ModelDescription(labels=str(labels_file(tmp_path)), mean=(127.5,), std=(127.5,))).card
    assert (card.name, card.input_size, card.classes) == ("net", SIZE, CLASSES)
    assert card.conversion.runtime.startswith("torch ")
    assert (card.conversion.images, card.conversion.agreement, card.conversion.transposes) == (32, 1.0, 0)
    assert card.conversion.difference < 1e-4

    convert(card, fetch_weights(card, FetchOptions(offline=True)), tmp_path / "master.tflite")
    outputs = run((tmp_path / "master.tflite").read_bytes(), image())
    logits = TorchProgram(program).scores(image())
    expected = np.exp(logits) / np.exp(logits).sum()
    assert outputs["probabilities"] == pytest.approx(expected, abs=1e-5)
    assert outputs["features"].shape == (1, 8)


def test_every_operator_is_a_layer_with_the_name_of_its_weights(program: Path) -> None:
    layers = TorchProgram(program).layers(image())
    named = {layer.name: layer for layer in layers}
    assert named["0 (conv2d)"].values.shape == (1, 8, SIZE // 2, SIZE // 2)
    assert layers[-1].operator == "linear"
    assert layers[-1].values.shape == (1, CLASSES)
    assert set(layers[-1].inputs) <= set(named)


class _Harmful:
    """A pickle that makes a file when it is read."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> Any:
        return Path.touch, (self.made,)


def test_a_harmful_pickle_in_the_place_of_the_sample_inputs_is_not_read(program: Path, tmp_path: Path) -> None:
    import torch

    made, harmful = tmp_path / "made", io.BytesIO()
    torch.save(_Harmful(made), harmful)
    file = tmp_path / "harmful.pt2"
    with zipfile.ZipFile(program) as sound, zipfile.ZipFile(file, "w") as archive:
        for member in sound.namelist():
            replaced = harmful.getvalue() if "/sample_inputs/" in member else sound.read(member)
            archive.writestr(member, replaced)
    assert TorchProgram(file).scores(image()).shape == (1, CLASSES)
    assert not made.exists()


def test_what_another_pytorch_wrote_is_refused_with_both_versions(program: Path, tmp_path: Path) -> None:
    def later(content: Program) -> None:
        content["schema_version"]["major"] = 99
        content["torch_version"] = "9.1"

    file = write(tmp_path / "later.pt2", members(later))
    must_fail(UsageError, r"PyTorch 9\.1 wrote it, and PyTorch .* cannot read it: .*[Vv]ersion", TorchProgram, file)


def test_without_pytorch_the_extra_and_another_way_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    raised = must_fail(UsageError, "needs torch and onnxscript", TorchProgram, write(tmp_path / "net.pt2", members()))
    assert install_extra("torch") in raised.hint
    assert "torch.onnx.export" in raised.hint
