"""Export a model of ``timm`` or ``torchvision`` as a ``.pt2`` file, by its name.

`handles.py` calls it for ``timm:NAME`` and ``torchvision:NAME``. A child process with the network
runs the package, which finds its own weights; the child imports ``export`` of this module by name.
"""

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from advisor.core import AdvisorError, StageError, UsageError, install_extra, message_of, nearest
from advisor.isolation import CallLimits, ChildPool, Scratch
from advisor.tflite import Metadata

LIMITS = CallLimits(seconds=900, memory_bytes=8_000_000_000, processes=4)
"""Limits for one model of a package; the time includes a download by the package."""

_LISTS = {"timm": "timm.list_models()", "torchvision": "torchvision.models.list_models()"}

_Loaded = tuple[Any, int, str, Metadata, float | None]
"""A model, the side of its input, its evaluation in words, its metadata and its top-1.

The last two are those of :class:`LocalModel`.
"""


@dataclass(frozen=True)
class LocalModel:
    """A model on this machine.

    ``origin`` is where it came from, for the card's note, empty for a path. Its package states
    ``metadata`` (labels, normalisation of RGB 0..255 and licence, None without a package) and
    ``top1`` (ImageNet accuracy in percent).
    """

    path: Path
    origin: str = ""
    metadata: Metadata | None = None
    top1: float | None = None


def is_source(name: str) -> bool:
    """Return whether ``name`` is a model of a package, such as ``timm:resnet18``."""
    return name.partition(":")[0] in _map_loaders() and ":" in name


@contextmanager
def export_package(source: str, size: int | None = None) -> Iterator[LocalModel]:
    """Export a package's model as a ``.pt2`` in a child process; yield it for the block.

    It is removed afterwards. The name in ``timm:NAME`` or ``torchvision:NAME`` may end in the tag
    of its weights, after a full stop. The package finds the weights: in its cache, or, if it can,
    from its own server.
    """
    package = source.partition(":")[0]
    missing = []
    for name in ("torch", package):
        if importlib.util.find_spec(name) is None:
            missing.append(name)
    if missing:
        raise UsageError(
            f"{source}: the packages {' and '.join(missing)} are missing",
            f"{install_extra('torch')}; pip install {package}",
        )
    with Scratch() as folder:
        try:
            with ChildPool(folder / "log.txt", has_network=True) as pool:
                exported_model: LocalModel = pool.call(
                    f"{__name__}:export", source, size, folder, limits=LIMITS
                )
        except StageError as error:
            raise UsageError(
                f"{source} cannot be exported: {error.message}",
                error.hint or "export it yourself to an .onnx or .pt2 file, and give that file",
            ) from error
        yield exported_model


def export(source: str, size: int | None, folder: Path) -> LocalModel:
    """Load a model and write it as ``.pt2`` below ``folder``, in a child process.

    Errors are those of :func:`export_package`.
    """
    import torch

    package, _, name = source.partition(":")
    try:
        model, default_side, evaluated, described, top1 = _map_loaders()[package](name)
    except AdvisorError:
        raise
    # Packages raise errors of their servers, caches and files.
    except Exception as error:
        raise UsageError(
            f"{package} cannot load the weights of '{name}': {message_of(error)}",
            "connect once and let the package fetch them into its cache, or give a file: advisor"
            " catalog add NAME.pt2",
        ) from error
    side = size or default_side
    file = folder / f"{name.replace('.', '_')}.pt2"
    program = torch.export.export(model.eval(), (torch.zeros(1, 3, side, side),))
    torch.export.save(program, str(file))
    origin = f"{source} ({package} {metadata.version(package)}; evaluated on {evaluated})"
    return LocalModel(file, origin, described, top1)


def _describe_package(
    name: str,
    labels: Iterable[str],
    mean: Iterable[float],
    std: Iterable[float],
    licence: str,
) -> Metadata:
    """Return what a package says of a model, whose normalisation is of values 0..1."""
    mean_of_pixels = tuple(round(255 * value, 4) for value in mean)
    std_of_pixels = tuple(round(255 * value, 4) for value in std)
    return Metadata(name, tuple(labels), mean_of_pixels, std_of_pixels, licence=licence)


def _load_timm(name: str) -> _Loaded:
    import timm
    from timm.data import ImageNetInfo, infer_imagenet_subset
    from timm.utils import reparameterize_model

    _require_known("timm", name, {*timm.list_models(), *timm.list_pretrained()})
    model = timm.create_model(name, pretrained=True).eval()
    facts = dict(model.pretrained_cfg)
    labels = tuple(facts.get("label_names") or ())
    subset = infer_imagenet_subset(model)
    if not labels and subset:
        info = ImageNetInfo(subset)
        labels = tuple(map(info.index_to_description, range(info.num_classes())))
    evaluated = (
        f"a {facts.get('crop_mode', 'center')} crop of {facts['crop_pct']:g},"
        f" {facts['interpolation']}"
    )
    described = _describe_package(
        name, labels, facts["mean"], facts["std"], str(facts.get("license") or "")
    )
    # Branches that only training needs become one convolution, which computes the same faster.
    return reparameterize_model(model), int(facts["input_size"][-1]), evaluated, described, None


def _load_torchvision(name: str) -> _Loaded:
    from torchvision import models

    network, _, tag = name.partition(".")
    _require_known("torchvision", network, set(models.list_models(module=models)))
    choices = {weights.name: weights for weights in models.get_model_weights(network)}
    if tag and tag not in choices:
        raise UsageError(
            f"torchvision has no weights '{tag}' of {network}{nearest(tag, choices)}",
            f"It has: {', '.join(choices)}.",
        )
    weights = choices[tag] if tag else models.get_model_weights(network).DEFAULT
    model = models.get_model(network, weights=weights)
    crop = weights.transforms()
    package = metadata.metadata("torchvision")
    accuracy = weights.meta.get("_metrics", {}).get("ImageNet-1K", {}).get("acc@1")
    evaluated = (
        f"a center crop of {crop.crop_size[0]} of {crop.resize_size[0]},"
        f" {crop.interpolation.value}"
    )
    licence = next(iter(package.get_all("License") or ()), "")
    labels = weights.meta.get("categories", ())
    described = _describe_package(name, labels, crop.mean, crop.std, licence)
    top1 = None if accuracy is None else float(accuracy)
    return model, int(crop.crop_size[0]), evaluated, described, top1


def _require_known(package: str, name: str, known: set[str]) -> None:
    if name not in known:
        raise UsageError(
            f"{package} has no model '{name}'{nearest(name, sorted(known))}",
            f"list them in Python: {_LISTS[package]}",
        )


@cache
def _map_loaders() -> Mapping[str, Callable[[str], _Loaded]]:
    """Return the function that loads a model by its name, by package."""
    return {"timm": _load_timm, "torchvision": _load_torchvision}
