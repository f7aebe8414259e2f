"""Bring a user's model to this machine: a path, or a handle of TensorFlow Hub.

`advisor catalog add` calls :func:`local_source` with what the user names. A child process with the
network downloads and unpacks a handle's files, within limits; it imports ``download`` by name.
Models of packages come from `packages.py`.
"""

import hashlib
import importlib.util
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from advisor.catalog._user_models.packages import LocalModel, export_package, is_source
from advisor.core import (
    StageError,
    UsageError,
    install_extra,
    message_of,
    show_bytes,
    without_password,
)
from advisor.isolation import CallLimits, ChildPool, Scratch
from advisor.store import (
    MAX_DOWNLOAD_BYTES,
    MAX_DOWNLOAD_S,
    SERVER_PATIENCE_S,
    Unavailable,
    client_for,
    files_below,
    home_transport,
    sha256_file,
)

PACKAGE = "tensorflow_hub"
HASH = "#sha256="
HUB_LIMITS = CallLimits(seconds=MAX_DOWNLOAD_S, processes=2)

_PARTS = 3
"""Parts of a handle's path that name the card: publisher and collection say little."""


@contextmanager
def local_source(file: str | Path, size: int | None = None) -> Iterator[LocalModel]:
    """Yield a model for the block: a path as it is, or the model of a handle or a package's name.

    A handle is an http(s) address; its origin has the hash of its files. ``HANDLE#sha256=HEX`` is
    refused if they have another hash (:func:`folder_sha256`). A package's name is ``timm:NAME``
    or ``torchvision:NAME``; ``size`` is the side of the input in pixels of its model, by default
    the package's own.
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
            # The name of the folder becomes that of the card.
            folder = saved_model.rename(saved_model.with_name(_name_of_handle(handle)))
            yield LocalModel(folder, f"{shown}{HASH}{sha256}")
    except Unavailable as error:
        raise UsageError(
            f"{error}",
            "download the SavedModel yourself, unpack it, and add its folder: advisor catalog add"
            " FOLDER",
        ) from error


def _name_of_handle(handle: str) -> str:
    """Return a name for the model of a handle, by the last parts of its path."""
    parts = [part for part in urlsplit(handle).path.split("/") if part]
    name = re.sub(r"[^A-Za-z0-9_+-]+", "_", "_".join(parts[-_PARTS:])).strip("_+-")
    return name[:100] or "model"


def folder_sha256(folder: Path) -> str:
    """Return the hash of a folder's files.

    It is that of the lines ``<sha256>  <relative path>``, sorted by path.
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
        settings = child_settings(folder)
        with ChildPool(
            folder / "log.txt", settings, writes_below=folder, has_network=True
        ) as pool:
            try:
                model = Path(pool.call(f"{__name__}:download", handle, limits=HUB_LIMITS))
            except StageError as error:
                raise Unavailable(f"{without_password(handle)}: {error.message}") from error
        yield model


def child_settings(folder: Path) -> dict[str, str | None]:
    """Return the environment of a child that calls :func:`download` into ``folder``.

    It reaches the network by the proxy and the certificates that the user's pip is configured for.
    """
    transport = home_transport()
    settings: dict[str, str | None] = {
        "TFHUB_CACHE_DIR": str(folder),
        "TFHUB_MODEL_LOAD_FORMAT": "COMPRESSED",
    }
    if transport.proxy:
        settings |= {"http_proxy": transport.proxy, "https_proxy": transport.proxy}
    if transport.ca_file:
        settings["SSL_CERT_FILE"] = transport.ca_file
    return settings


def download(handle: str, most_bytes: int = MAX_DOWNLOAD_BYTES) -> str:
    """Resolve a handle into a folder below ``TFHUB_CACHE_DIR`` and return it, in a child process.

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
    socket.setdefaulttimeout(SERVER_PATIENCE_S)
    try:
        return str(tensorflow_hub.resolve(handle))
    except urllib.error.HTTPError as error:
        raise StageError(f"the server answers {error.code}") from error
    except (OSError, EOFError, ValueError, tarfile.TarError, OpError) as error:
        raise StageError(f"tensorflow-hub: {message_of(error)}") from error
