"""Convert networks of timm with random weights, and keep what a graph file is made from;
this step needs PyTorch.

``python tools/graphs/from_timm.py FOLDER NAME...`` (or ``NAME@SIDE``, for another input) needs
``torch``, ``timm`` and ``litert-torch`` (2 GB), and nothing of the advisor. For each network it
writes ``NAME.tflite`` with one set of random weights, and ``NAME.npz``: that set, a second one,
inputs, and the answers that PyTorch computes for them with the second set. Branches that add up to
one convolution are fused in the ``.tflite``; the sums are in the ``.npz`` too, by the module that
the branches belong to.
"""

import copy
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

_register = torch.library.register_fake


def _without_vision(name: Any, *arguments: Any, **keywords: Any) -> Callable[..., Any]:
    """Leave out operators of torchvision, which a build of PyTorch for CPUs alone does not
    have.
    """
    if str(name).startswith("torchvision::"):
        return lambda function: function
    return _register(name, *arguments, **keywords)


torch.library.register_fake = _without_vision
import litert_torch  # noqa: E402
import timm  # noqa: E402

# The converter misplaces axes there; products broadcast without it.
torch.Tensor.expand_as = lambda self, _other: self

INPUTS = 32
GAINS = (1.0, 0.5, 0.25, 0.125)
"""Factors of the scales of normalisations, tried in turn:
attention by large random scores is chaotic.
"""
STEADY = 2e-5
"""Largest relative difference between the answers of PyTorch in float32
and float64 that a gain may have.
"""
LEAST_VARIANCE = 0.05
HEADS = ("head", "classifier")
"""Parts that are not fused: two heads of a distilled network are made one later,
and can be trained then.
"""


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for name in sys.argv[2:]:
        if not (folder / f"{name}.npz").is_file():
            try:
                write(folder, name)
                print(f"{name}: written", flush=True)
            except Exception as error:
                # An error of PyTorch or of the converter: the others are still to be made.
                print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)


def write(folder: Path, name: str) -> None:
    """Write the files of one network;
    its side is the one that its published accuracy belongs to, or the one asked.
    """
    network, _, asked = name.partition("@")
    model = timm.create_model(network, pretrained=False).eval()
    cfg = model.pretrained_cfg
    side = int(asked or (cfg.get("test_input_size") or cfg["input_size"])[1])
    if side != cfg["input_size"][1]:
        model = timm.create_model(network, pretrained=False, **_sized(network, side)).eval()
    images = np.random.default_rng(0).normal(size=(INPUTS, side, side, 3)).astype(np.float32)
    for gain in GAINS:
        sets = []
        for seed in (1, 2):
            settle(model, side, seed, gain)
            sets.append({key: value.numpy().copy() for key, value in model.state_dict().items()})
        answers, exact = (
            answered(model, images),
            answered(copy.deepcopy(model).double(), images.astype(np.float64)),
        )
        unsteady = float((np.abs(answers - exact).max(axis=1) / np.abs(exact).max(axis=1)).max())
        print(f"{name}: gain {gain:g}, float32 and float64 differ by {unsteady:.1g}", flush=True)
        if unsteady <= STEADY:
            break
    norms = {
        path: module.eps
        for path, module in model.named_modules()
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)
    }
    about = {
        "name": name, "side": side, "norms": norms, "mean": cfg["mean"], "std": cfg["std"],
        "licence": cfg.get("license", ""), "hub": cfg["hf_hub_id"], "url": cfg.get("url", ""),
        "params": sum(value.numel() for value in model.parameters()), "timm": timm.__version__,
    }  # fmt: skip
    model.load_state_dict({key: torch.from_numpy(value) for key, value in sets[0].items()})
    fuse(model)
    fused = {
        key: value.numpy().copy()
        for key, value in model.state_dict().items()
        if key not in sets[0]
    }
    given = litert_torch.to_channel_last_io(model, args=[0]).eval()
    litert_torch.convert(given, (torch.from_numpy(images[:1]),)).export(
        str(folder / f"{name}.tflite")
    )
    arrays = {
        f"{number}/{key}": value
        for number, arrays_of_set in enumerate(sets)
        for key, value in arrays_of_set.items()
    }
    arrays |= {f"fused/{key}": value for key, value in fused.items()}
    with (folder / f"{name}.npz").open("wb") as file:
        np.savez(file, **arrays, images=images, answers=answers, about=np.array(json.dumps(about)))


def fuse(model: Any) -> None:
    """Replace branches that add up to one convolution by it,
    in a network that is trained with such branches.
    """
    names = {type(module).__name__ for module in model.modules()}
    if not names & {"RepVggDw", "MobileOneBlock"}:
        return
    for name, child in model.named_children():
        if name not in HEADS:
            setattr(model, name, timm.utils.reparameterize_model(child))


def _sized(name: str, side: int) -> dict[str, int]:
    return {"img_size": side} if "vit" in name or name.startswith("efficientformer") else {}


def answered(model: Any, images: Any) -> Any:
    """Return what PyTorch answers to images (N, side, side, 3)."""
    with torch.no_grad():
        return model(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()


def settle(model: Any, side: int, seed: int, gain: float = 1.0, shift: float = 0.0) -> None:
    """Fill a model with random weights, none of them equal, whose activations keep their scale.

    ``gain`` is a factor of the scales of normalisations, and ``shift`` the mean of their offsets.
    With an offset, activations are seldom cut off: a deep network of random weights is chaotic
    otherwise, and multiplies rounding.
    """
    torch.manual_seed(seed)
    for name, value in model.named_parameters():
        with torch.no_grad():
            if value.ndim >= 2:
                value.normal_(0.0, (2.0 / max(value[0].numel(), 1)) ** 0.5)
            elif name.endswith("bias"):
                value.normal_(shift, 0.1)
            else:
                value.uniform_(0.5 * gain, 1.5 * gain)
    norms = list(_norms(model))
    for norm in norms:
        norm.momentum = 1.0
    model.train()
    with torch.no_grad():
        for _ in range(2):
            model(torch.randn(8, 3, side, side))
    # Pooled noise hardly varies, and its differences become large scores.
    for norm in norms if gain < 1 else ():
        norm.running_var.clamp_(min=LEAST_VARIANCE)
    model.eval()


def _norms(model: Any) -> Iterator[Any]:
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            yield module


if __name__ == "__main__":
    main()
