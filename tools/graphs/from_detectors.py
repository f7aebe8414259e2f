"""Convert whole detectors with random weights, and keep what a graph file is made from;
this step needs PyTorch.

``python tools/graphs/from_detectors.py FOLDER NAME...`` needs ``torch``, ``torchvision``,
``timm``, ``effdet`` and ``litert-torch``, and nothing of the advisor. ``NAME`` is a detector of
torchvision (``ssdlite320_mobilenet_v3_large``) or of effdet (``tf_efficientdet_lite0``). It writes
what ``from_timm`` writes for a classifier. The network gives the logits of its classes and the
encodings of its boxes before they are decoded, and the maps that its neck reads. The file says
where its anchors are, as the package computes them.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

# Effdet compiles its suppression, whose operator a build for CPUs lacks.
os.environ["PYTORCH_JIT"] = "0"
import torch
from from_timm import INPUTS, settle  # first: it leaves out operators that a build for CPUs lacks

import effdet  # isort: skip
import effdet.anchors  # isort: skip
import effdet.efficientdet  # isort: skip
import litert_torch  # isort: skip
import torchvision  # isort: skip

LETTERS = "yxhw"
"""The encodings of a file of TensorFlow Lite, in its order: y, x, height, width."""

SHIFT = 1.0


@dataclass(frozen=True)
class Detector:
    """A detector of a package, and what its graph file says of it."""

    # From images (n, 3, S, S) to logits (n, N, C),
    # encodings (n, N, 4) and the maps of the backbone.
    network: Any
    side: int
    anchors: Any  # (N, 4): centre y and x, height and width, in shares of the image
    cells: Sequence[tuple[int, int]]  # rows and columns of each level
    order: str  # letters of the encodings, as the network gives them
    scales: Sequence[float]  # what an encoding is multiplied by, as the network gives it
    background: bool  # the first class is the background, and the logits are those of a softmax
    about: Mapping[str, Any]


class OfTorchvision(torch.nn.Module):
    """An SSD of torchvision without its transforms, its decoding and its suppression."""

    def __init__(self, name: str) -> None:
        super().__init__()
        build = getattr(torchvision.models.detection, name)
        self.model = build(weights=None, weights_backbone=None, num_classes=91)

    def forward(self, images: Any) -> tuple[Any, ...]:
        """Return logits, encodings and the two maps of the backbone."""
        first, *blocks = self.model.backbone.features[0], self.model.backbone.features[1]
        maps = [first(images)]
        maps.append(blocks[0](maps[-1]))
        levels = list(maps)
        for block in self.model.backbone.extra:
            levels.append(block(levels[-1]))
        # The package's own order of axes leaves transposes in the file; its values are the same.
        parts = []
        for head in (self.model.head.classification_head, self.model.head.regression_head):
            outputs = [layer(level) for layer, level in zip(head.module_list, levels, strict=True)]
            parts.append(join(outputs, head.num_columns))
        return *parts, *maps


class OfEffdet(torch.nn.Module):
    """An EfficientDet of effdet."""

    def __init__(self, name: str) -> None:
        super().__init__()
        config = effdet.get_efficientdet_config(name)
        config.pretrained_backbone = False
        self.model = effdet.EfficientDet(config, pretrained_backbone=False)
        for module in self.model.modules():
            if isinstance(module, effdet.efficientdet.FpnCombine):
                if module.weight_method != "sum":
                    raise ValueError(
                        f"{name} weighs its maps by '{module.weight_method}', and not by a"
                        " plain sum"
                    )
                module.forward = partial(add_maps, module)

    def forward(self, images: Any) -> tuple[Any, ...]:
        """Return logits, encodings and the maps of the backbone."""
        maps = self.model.backbone(images)
        levels = self.model.fpn(list(maps))
        parts = []
        for head, width in (
            (self.model.class_net, self.model.config.num_classes),
            (self.model.box_net, 4),
        ):
            parts.append(join(head(levels), width))
        return *parts, *maps


def add_maps(combine: Any, maps: Sequence[Any]) -> Any:
    """Return the sum of the maps that a node of the neck reads.

    The package stacks them along a fifth axis and sums over it. That leaves transposes, and an
    activation in float among 8-bit operators.
    """
    resampled = [
        resample(maps[place])
        for place, resample in zip(combine.inputs_offsets, combine.resample.values(), strict=True)
    ]
    return reduce(torch.add, resampled)


def join(outputs: Sequence[Any], width: int) -> Any:
    """Return outputs (n, A width, H, W) of all levels as rows (n, N, width), place by place."""
    rows = [output.permute(0, 2, 3, 1).reshape(output.shape[0], -1, width) for output in outputs]
    return torch.cat(rows, 1)


def of_torchvision(name: str) -> Detector:
    """Return an SSD of torchvision; its anchors are those of its generator, for its own side."""
    network = OfTorchvision(name).eval()
    model = network.model
    side = model.transform.fixed_size[0]
    with torch.no_grad():
        levels = list(model.backbone(torch.zeros(1, 3, side, side)).values())
    images = torchvision.models.detection.image_list.ImageList(
        torch.zeros(1, 3, side, side), [(side, side)]
    )
    corners = model.anchor_generator(images, levels)[0].numpy() / side
    weights = torchvision.models.detection.SSDLite320_MobileNet_V3_Large_Weights.COCO_V1
    about = {
        "url": weights.url,
        "labels": weights.meta["categories"],
        "map": weights.meta["_metrics"]["COCO-val2017"]["box_map"],
        "mean": list(model.transform.image_mean),
        "std": list(model.transform.image_std),
        "package": f"torchvision {version('torchvision')}",
    }
    cells = [(level.shape[2], level.shape[3]) for level in levels]
    return Detector(
        network,
        side,
        centred(corners[:, [1, 0, 3, 2]]),
        cells,
        "xywh",
        model.box_coder.weights,
        True,
        about,
    )


def of_effdet(name: str) -> Detector:
    """Return an EfficientDet of effdet."""
    network = OfEffdet(name).eval()
    config = network.model.config
    anchors = effdet.anchors.Anchors.from_config(config)
    side = config.image_size[0]
    about = {
        "url": config.url,
        "mean": list(config.mean),
        "std": list(config.std),
        "package": f"effdet {version('effdet')}",
    }
    cells = [tuple(size) for size in anchors.feat_sizes[config.min_level :]]
    boxes = centred(anchors.boxes.numpy() / side)
    return Detector(network, side, boxes, cells, "yxhw", (1.0, 1.0, 1.0, 1.0), False, about)


def centred(edges: Any) -> Any:
    """Return boxes given by top, left, bottom and right as centre y and x, height and width."""
    return np.concatenate([(edges[:, :2] + edges[:, 2:]) / 2, edges[:, 2:] - edges[:, :2]], axis=1)


def shapes_of(detector: Detector) -> list[dict[str, Any]]:
    """Return rows, columns, and height and width of each anchor of a place, level by level.

    ValueError: the anchors are not the same at each place of a level,
    or not in the middle of its cells.
    """
    levels = []
    start = 0
    places = sum(rows * columns for rows, columns in detector.cells)
    anchors_of_place = len(detector.anchors) // places
    for rows, columns in detector.cells:
        table = detector.anchors[start : start + rows * columns * anchors_of_place].reshape(
            rows, columns, anchors_of_place, 4
        )
        start += rows * columns * anchors_of_place
        y, x = np.meshgrid(
            (np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns, indexing="ij"
        )
        middle = np.stack([y, x], axis=-1)[:, :, None]
        far = max(
            abs(table[..., :2] - middle).max(), abs(table[..., 2:] - table[0, 0, :, 2:]).max()
        )
        if far > 1e-4:
            raise ValueError(
                f"anchors of {rows} x {columns} places differ by {far:.2g} from those of a grid"
            )
        levels.append(
            {
                "cells": [rows, columns],
                "sides": [[float(side) for side in box] for box in table[0, 0, :, 2:]],
            }
        )
    if start != len(detector.anchors):
        raise ValueError(f"{len(detector.anchors)} anchors for {start} places")
    return levels


def main() -> None:
    """Write the files of the detectors that are named."""
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for name in sys.argv[2:]:
        write(
            folder,
            name,
            (
                of_torchvision(name)
                if hasattr(torchvision.models.detection, name)
                else of_effdet(name)
            ),
        )
        print(f"{name}: written", flush=True)


def write(folder: Path, name: str, detector: Detector) -> None:
    """Write the files of one detector."""
    network = detector.network
    side = detector.side
    images = np.random.default_rng(0).normal(size=(INPUTS, side, side, 3)).astype(np.float32)
    sets = []
    for seed in (1, 2):
        settle(network, side, seed, shift=SHIFT)
        state = network.state_dict()
        sets.append(
            {key.removeprefix("model."): value.numpy().copy() for key, value in state.items()}
        )
    answers = answer_images(network, images)
    norms = {
        path.removeprefix("model."): module.eps
        for path, module in network.named_modules()
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)
    }
    about = {
        **detector.about,
        "name": name,
        "side": side,
        "norms": norms,
        "params": sum(value.numel() for value in network.parameters()),
        "detector": {
            "levels": shapes_of(detector),
            "order": [detector.order.index(letter) for letter in LETTERS],
            "scales": [float(value) for value in detector.scales],
            "background": detector.background,
        },
    }
    network.load_state_dict(
        {f"model.{key}": torch.from_numpy(value) for key, value in sets[0].items()}
    )
    count = len(answers)
    given = litert_torch.to_channel_last_io(
        network, args=[0], outputs=list(range(2, count))
    ).eval()
    litert_torch.convert(given, (torch.from_numpy(images[:1]),)).export(
        str(folder / f"{name}.tflite")
    )
    arrays = {
        f"{number}/{key}": value
        for number, tensors in enumerate(sets)
        for key, value in tensors.items()
    }
    arrays |= {
        f"answer{number}": answer.astype(np.float32) for number, answer in enumerate(answers[:2])
    }
    with (folder / f"{name}.npz").open("wb") as file:
        np.savez(file, **arrays, images=images, about=np.array(json.dumps(about)))


def answer_images(network: Any, images: Any) -> list[Any]:
    """Return the outputs of the network, joined over images (N, side, side, 3),
    one image at a time.
    """
    rows = []
    with torch.no_grad():
        for image in images:
            rows.append(
                [
                    part.numpy()
                    for part in network(torch.from_numpy(image[None]).permute(0, 3, 1, 2))
                ]
            )
    return [np.concatenate(parts) for parts in zip(*rows, strict=True)]


if __name__ == "__main__":
    main()
