"""Bring a user's model here: a path, a handle of TensorFlow Hub,
or a name of ``timm`` or ``torchvision``.
"""

import hashlib
import importlib.util
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from advisor.core import (
    AdvisorError,
    StageError,
    UsageError,
    install_extra,
    message_of,
    nearest,
    show_bytes,
    without_password,
)
from advisor.downloads import (
    MAX_DOWNLOAD_BYTES,
    MOST_S,
    PATIENCE_S,
    Unavailable,
    client_for,
    home_transport,
)
from advisor.isolation import NETWORK, WRITES_BELOW, CallLimits, ChildPool, Scratch
from advisor.store import files_below, sha256_file
from advisor.tflite import Metadata

PACKAGE = "tensorflow_hub"
HASH = "#sha256="
HUB_LIMITS = CallLimits(seconds=MOST_S, processes=2)
LIMITS = CallLimits(seconds=900, memory_bytes=8_000_000_000, processes=4)
"""Limits for one model of a package; the time includes a download by the package."""

_PARTS = 3
"""Parts of a handle's path that name the card: publisher and collection say little."""

_LISTS = {"timm": "timm.list_models()", "torchvision": "torchvision.models.list_models()"}


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


@contextmanager
def local_source(file: str | Path, size: int | None = None) -> Iterator[LocalModel]:
    """Yield a model for the block: a path as it is,
    or what a handle or a package's name stands for.

    A handle is an http(s) address; its origin has the hash of its files. ``HANDLE#sha256=HEX`` is
    refused if they have another hash (:func:`folder_sha256`). A package's name is ``timm:NAME`` or
    ``torchvision:NAME``; ``size`` is the side of the input in pixels of its model, by default the
    package's own.
    """
    if is_source(str(file)):
        with export_package(str(file), size) as model:
            yield model
        return
    if not str(file).startswith(("http://", "https://")):
        yield LocalModel(Path(file))
        return
    handle, _, wanted = str(file).partition(HASH)
    shown = without_password(handle)
    try:
        with resolve_handle(handle) as saved_model:
            sha256 = folder_sha256(saved_model)
            if wanted and wanted.lower() != sha256:
                raise UsageError(
                    f"{shown}: its files have sha256 {sha256}, expected {wanted}",
                    "check the handle and its version",
                )
            parts = []
            for part in urlsplit(handle).path.split("/"):
                if part:
                    parts.append(part)
            # The name of the folder becomes that of the card.
            name = (
                re.sub(r"[^A-Za-z0-9_+-]+", "_", "_".join(parts[-_PARTS:])).strip("_+-")[:100]
                or "model"
            )
            yield LocalModel(
                saved_model.rename(saved_model.with_name(name)), f"{shown}{HASH}{sha256}"
            )
    except Unavailable as error:
        raise UsageError(
            f"{error}",
            "download the SavedModel yourself, unpack it, and add its folder: advisor catalog add"
            " FOLDER",
        ) from error


def folder_sha256(folder: Path) -> str:
    """Return the hash of a folder's files: that of the lines ``<sha256>  <relative path>``,
    sorted by path.
    """
    paths = sorted(path.relative_to(folder).as_posix() for path in files_below(folder))
    lines = (f"{sha256_file(folder / path)}  {path}\n" for path in paths)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@contextmanager
def resolve_handle(handle: str) -> Iterator[Path]:
    """Yield the folder of a handle's SavedModel for the block, and remove it afterwards."""
    if importlib.util.find_spec(PACKAGE) is None:
        raise Unavailable(
            f"{without_password(handle)}: TensorFlow Hub needs {install_extra('hub')}"
        )
    # A server that is not there costs one short wait, and no child.
    with client_for(handle):
        pass
    with Scratch() as folder:
        # A child with the network: the package resolves, downloads and unpacks on its own.
        with ChildPool(folder / "log.txt", child_settings(folder)) as pool:
            try:
                model = Path(pool.call(f"{__name__}:download", handle, limits=HUB_LIMITS))
            except StageError as error:
                raise Unavailable(f"{without_password(handle)}: {error.message}") from error
        yield model


def child_settings(folder: Path) -> dict[str, str | None]:
    """Return the environment of a child that calls :func:`download` and writes below ``folder``.

    It has the network, by the proxy and the certificates that the user's pip is configured for.
    """
    transport = home_transport()
    proxy = (
        {"http_proxy": transport.proxy, "https_proxy": transport.proxy} if transport.proxy else {}
    )
    certificates = {"SSL_CERT_FILE": transport.ca_file} if transport.ca_file else {}
    files = {
        WRITES_BELOW: str(folder),
        "TFHUB_CACHE_DIR": str(folder),
        "TFHUB_MODEL_LOAD_FORMAT": "COMPRESSED",
    }
    return {NETWORK: "1", **files, **proxy, **certificates}


def download(handle: str, most_bytes: int = MAX_DOWNLOAD_BYTES) -> str:
    """Resolve a handle into a folder below ``TFHUB_CACHE_DIR`` and return that folder;
    for child processes.

    Raises:
        StageError: the server refuses or is silent, or what it sends is not a SavedModel's
            archive, has paths out of the archive, links, or more than ``most_bytes``.
    """
    import tarfile
    import urllib.error

    import tensorflow_hub
    from tensorflow.errors import OpError
    from tensorflow_hub import resolver

    class Bounded(resolver.DownloadManager):  # type: ignore[misc]
        """Ends when too much was unpacked."""

        def _log_progress(self, bytes_downloaded: int) -> None:
            super()._log_progress(bytes_downloaded)
            if self._total_bytes_downloaded > most_bytes:
                raise StageError(f"more than {show_bytes(most_bytes)} when unpacked")

    resolver.DownloadManager = Bounded
    # TensorFlow Hub sets no limit, and would wait for a silent server without end.
    socket.setdefaulttimeout(PATIENCE_S)
    try:
        return str(tensorflow_hub.resolve(handle))
    except urllib.error.HTTPError as error:
        raise StageError(f"the server answers {error.code}") from error
    except (OSError, EOFError, ValueError, tarfile.TarError, OpError) as error:
        raise StageError(f"tensorflow-hub: {message_of(error)}") from error


def is_source(name: str) -> bool:
    """Return whether ``name`` is a model of a package, such as ``timm:resnet18``."""
    return name.partition(":")[0] in _map_loaders() and ":" in name


@contextmanager
def export_package(source: str, size: int | None = None) -> Iterator[LocalModel]:
    """Export a package's model as a ``.pt2`` in a child process;
    yield it for the block and remove it afterwards.

    The name in ``timm:NAME`` or ``torchvision:NAME`` may end in the tag of its weights, after a
    full stop. The package finds the weights: in its cache, or, if it can, from its own server.
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
            with ChildPool(folder / "log.txt", {NETWORK: "1"}) as pool:
                exported_model: LocalModel = pool.call(
                    f"{__name__}:export", source, size, folder, limits=LIMITS
                )
        except StageError as error:
            raise UsageError(
                f"{source} cannot be exported: {error.message}", error.hint
            ) from error
        yield exported_model


_Loaded = tuple[Any, int, str, Metadata, float | None]
"""A model, the side of its input, how it was evaluated, and what its package says of it;
see :class:`LocalModel`.
"""


def export(source: str, size: int | None, folder: Path) -> LocalModel:
    """Load a model and write it as ``.pt2`` below ``folder``; for child processes.
    Errors as :func:`export_package`.
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
    name: str, labels: Iterable[str], mean: Iterable[float], std: Iterable[float], licence: str
) -> Metadata:
    """Return what a package says of a model, whose normalisation is of values 0..1."""
    mean_of_pixels = tuple(round(255 * value, 4) for value in mean)
    std_of_pixels = tuple(round(255 * value, 4) for value in std)
    return Metadata(name, tuple(labels), mean_of_pixels, std_of_pixels, licence=licence)


def _load_timm(name: str) -> _Loaded:
    import timm
    from timm.data import ImageNetInfo, infer_imagenet_subset
    from timm.utils import reparameterize_model

    _require("timm", name, {*timm.list_models(), *timm.list_pretrained()})
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
    _require("torchvision", network, set(models.list_models(module=models)))
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
    return (
        model,
        int(crop.crop_size[0]),
        evaluated,
        described,
        None if accuracy is None else float(accuracy),
    )


def _require(package: str, name: str, known: set[str]) -> None:
    if name not in known:
        raise UsageError(
            f"{package} has no model '{name}'{nearest(name, sorted(known))}",
            f"list them in Python: {_LISTS[package]}",
        )


@cache
def _map_loaders() -> Mapping[str, Callable[[str], _Loaded]]:
    """Return the function that loads a model by its name, by package."""
    return {"timm": _load_timm, "torchvision": _load_torchvision}
