"""Write what the published networks of whole detectors answer, with seeded random weights.

    PYTHON benchmarks/whole_detectors_networks.py FOLDER NAME...

It is run by :mod:`benchmarks.whole_detectors` with the Python of an environment that has torch, torchvision and effdet,
and imports nothing of advisor. NAME is a detector of torchvision (``ssdlite320_mobilenet_v3_large``) or of effdet
(``tf_efficientdet_lite0``). The networks are as their packages build them; nothing in them is replaced.

``NAME.pth`` has the weights, as the package's own checkpoints have them. ``NAME.npz`` has what the network answers:
``logits`` (n, N, C) and ``encodings`` (n, N, 4) before suppression, and the ``boxes`` (n, N, 4) that the package makes
of them: top, left, bottom and right in shares of the image.
"""

import json
import os
import sys
import zlib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

IMAGES = 32
SEED = 82
GRAINS = (1, 4, 16, 32)
"""Sides in pixels of the squares that an image is the sum of."""

SMALL = "box_net.predict.conv_pw."
"""Layer of effdet that moves boxes. Its weights are small, because the sides of a box are powers of its encodings."""


def draw_weights(shapes: Mapping[str, tuple[int, ...]], seed: int = SEED) -> dict[str, np.ndarray]:
    """Return random weights by name; those of batch normalisation change its input too.

    With offsets of a positive mean and factors around 1, PyTorch's answers in float32 and in float64 differ by less
    than 1e-5 (SSDLite320 and Lite0). With larger factors, a deep network of random weights multiplies rounding.
    """
    weights = {}
    for name, shape in shapes.items():
        draw = np.random.default_rng([seed, zlib.crc32(name.encode())])
        if len(shape) > 1:
            values = draw.normal(0.0, (1.5 / np.prod(shape[1:])) ** 0.5, shape)
        elif name.endswith(".running_var"):
            values = draw.uniform(0.5, 2.0, shape)
        elif name.endswith(".running_mean"):
            values = draw.normal(0.0, 0.3, shape)
        elif name.endswith(".bias"):
            values = draw.normal(0.5, 0.3, shape)
        else:
            values = draw.uniform(0.5, 1.25, shape)
        weights[name] = (values / 16 if name.startswith(SMALL) else values).astype(np.float32)
    return weights


def draw_images(side: int, count: int = IMAGES, seed: int = SEED) -> np.ndarray:
    """Return images (count, side, side, 3) of 0 to 255 with coarse and fine squares."""
    images = np.full((count, side, side, 3), 128.0)
    for number, image in enumerate(images):
        draw = np.random.default_rng([seed, number])
        for grain in GRAINS:
            squares = draw.normal(0.0, 32.0, (-(-side // grain), -(-side // grain), 3))
            image += squares.repeat(grain, axis=0).repeat(grain, axis=1)[:side, :side]
    return np.clip(images, 0, 255).round().astype(np.float32)


def main(folder: Path, names: list[str]) -> None:
    """Write the weights and the answers of the networks."""
    import torch

    import_packages(torch)
    for name in names:
        package = "effdet" if name.startswith("tf_") else "torchvision"
        model, answer = (build_effdet if package == "effdet" else build_torchvision)(torch, name)
        state = model.state_dict()
        shapes = {key: tuple(value.shape) for key, value in state.items() if value.ndim}
        state.update({key: torch.from_numpy(value) for key, value in draw_weights(shapes).items()})
        model.load_state_dict(state)
        torch.save(model.state_dict(), folder / f"{name}.pth")
        with torch.no_grad():
            rows = [answer(torch.from_numpy(image).permute(2, 0, 1)[None] / 255) for image in draw_images(model.side)]
        parts = {key: np.concatenate([row[key].numpy() for row in rows]) for key in rows[0]}
        versions = {each: version(each) for each in ("torch", package)}
        np.savez(folder / f"{name}.npz", **parts, versions=np.array(json.dumps(versions)))
        print(f"{name}: written", flush=True)


def build_torchvision(torch: Any, name: str) -> tuple[Any, Any]:
    """Return a detector of torchvision, and a function from an image (1, 3, S, S) of 0 to 1 to its outputs."""
    import torchvision

    model = getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None).eval()
    model.side = model.transform.fixed_size[0]

    def answer(image: Any) -> dict[str, Any]:
        images, _ = model.transform(list(image))
        levels = list(model.backbone(images.tensors).values())
        outputs = model.head(levels)
        anchors = model.anchor_generator(images, levels)[0]
        encodings = outputs["bbox_regression"]
        edges = model.box_coder.decode_single(encodings[0], anchors)
        boxes = edges[None, :, [1, 0, 3, 2]] / model.side
        return {"logits": outputs["cls_logits"], "encodings": encodings, "boxes": boxes}

    return model, answer


def build_effdet(torch: Any, name: str) -> tuple[Any, Any]:
    """Return a detector of effdet, and a function from an image (1, 3, S, S) of 0 to 1 to its outputs."""
    import effdet
    from effdet.anchors import Anchors, decode_box_outputs

    model = effdet.create_model(name, pretrained=False, pretrained_backbone=False).eval()
    config = model.config
    model.side = config.image_size[0]
    anchors = Anchors.from_config(config).boxes
    mean, std = (torch.tensor(values)[:, None, None] for values in (config.mean, config.std))

    def join(levels: list[Any], width: int) -> Any:
        # As effdet.bench joins them before it chooses detections.
        return torch.cat([level.permute(0, 2, 3, 1).reshape(len(level), -1, width) for level in levels], 1)

    def answer(image: Any) -> dict[str, Any]:
        logits, encodings = model((image - mean) / std)
        encodings = join(encodings, 4)
        boxes = decode_box_outputs(encodings[0], anchors)[None] / model.side
        return {"logits": join(logits, config.num_classes), "encodings": encodings, "boxes": boxes}

    return model, answer


def import_packages(torch: Any) -> None:
    """Import effdet beside a PyTorch that lacks the operators of torchvision, as builds for CPUs alone do.

    Suppression is among them. It is not run here, and effdet must not compile it.
    """
    register = torch.library.register_fake

    def skip_operators(operator: Any, *arguments: Any, **options: Any) -> Any:
        if str(operator).startswith("torchvision::"):
            return lambda function: function
        return register(operator, *arguments, **options)

    torch.library.register_fake = skip_operators
    import effdet  # noqa: F401


if __name__ == "__main__":
    os.environ["PYTORCH_JIT"] = "0"
    main(Path(sys.argv[1]), sys.argv[2:])
