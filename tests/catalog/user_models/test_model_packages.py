"""Models of timm and torchvision: what the packages know goes on the card, and a wrong name is refused."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog import public
from advisor.catalog.user_models import handles as model_packages
from advisor.catalog.user_models.handles import exported, is_source, local_source
from advisor.core.errors import UsageError

SIZE = 64


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The packages' caches in a folder of the test's own; a server is not asked."""
    for name in ("torch", "torchvision", "timm", "onnxscript"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed; continuous integration cannot install PyTorch")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("ADVISOR_CONFIG_DIR", str(tmp_path / "config"))
    return tmp_path


def in_the_cache_of_torchvision(folder: Path) -> None:
    import torch
    from torchvision import models

    file = Path(models.get_model_weights("squeezenet1_1").DEFAULT.url).name
    kept = folder / "torch" / "hub" / "checkpoints"
    kept.mkdir(parents=True)
    torch.manual_seed(0)
    torch.save(models.squeezenet1_1().state_dict(), kept / file)


def in_the_cache_of_timm(folder: Path) -> None:
    import timm
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    model: Any = timm.create_model("mobilenetv3_small_050")
    revision = "0" * 40
    kept = folder / "hub" / "hub" / ("models--" + model.pretrained_cfg["hf_hub_id"].replace("/", "--"))
    (kept / "snapshots" / revision).mkdir(parents=True)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(revision)
    save_file(model.state_dict(), kept / "snapshots" / revision / "model.safetensors")


@pytest.mark.slow
def test_a_model_of_torchvision_becomes_a_card_with_its_facts(caches: Path) -> None:
    in_the_cache_of_torchvision(caches)
    card = public.add("torchvision:squeezenet1_1", input_size=SIZE, into=caches / "own.yaml").card
    assert (card.name, card.input_size, card.classes, card.top1()) == ("squeezenet1_1", SIZE, 1000, 58.178)
    assert card.preprocessing.mean == pytest.approx((123.675, 116.28, 103.53))
    assert "torchvision:squeezenet1_1 (torchvision " in card.note
    assert "evaluated on a center crop of 224 of 256, bilinear" in card.note
    assert card.licence.startswith("BSD")


@pytest.mark.slow
def test_a_model_of_timm_brings_what_its_package_knows(caches: Path) -> None:
    in_the_cache_of_timm(caches)
    with local_source("timm:mobilenetv3_small_050", SIZE) as found:
        assert found.path.name == "mobilenetv3_small_050.pt2"
        assert found.metadata is not None
        assert (found.metadata.licence, len(found.metadata.labels)) == ("apache-2.0", 1000)
        assert found.metadata.std == pytest.approx((58.395, 57.12, 57.375))
        assert "evaluated on a center crop of 0.875, bicubic" in found.origin


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("timm:mobilenetv3_smal_050", r"no model 'mobilenetv3_smal_050' \(did you mean 'mobilenetv3_small_050'\?\)"),
        ("torchvision:resnet19", r"no model 'resnet19' \(did you mean 'resnet1[08]1?'\?\)"),
        ("torchvision:resnet18.IMAGENET1K_V7", r"no weights 'IMAGENET1K_V7' of resnet18 \(did you mean"),
        ("timm:resnet10t", "timm cannot load the weights of 'resnet10t'"),
    ],
)
def test_what_a_package_does_not_have_is_refused(caches: Path, source: str, said: str) -> None:
    with pytest.raises(UsageError, match=said), exported(source):
        pytest.fail("it was exported")


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_packages.importlib.util, "find_spec", lambda _name: None)
    with (
        pytest.raises(UsageError, match="the packages torch and timm are missing") as raised,
        exported("timm:resnet18"),
    ):
        pytest.fail("it was exported")
    assert "ondevice-advisor[torch]" in raised.value.hint


@pytest.mark.parametrize(
    ("name", "expected"), [("timm:resnet18", True), ("torchvision:x", True), ("timm", False), ("net.pt2", False)]
)
def test_a_source_is_the_name_of_a_package_and_a_model(name: str, expected: bool) -> None:
    assert is_source(name) is expected
