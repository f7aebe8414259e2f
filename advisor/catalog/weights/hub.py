"""Resolve handles of TensorFlow Hub with the package ``tensorflow-hub``, in a child process with limits.

The package imports TensorFlow and unpacks what a server sends, so it does neither in this process.
"""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from advisor.catalog.weights.delivery import client_for, home_transport
from advisor.catalog.weights.digest import Unavailable
from advisor.catalog.weights.network.download import MAX_DOWNLOAD_BYTES
from advisor.catalog.weights.network.transport import MOST_S, PATIENCE_S, redacted
from advisor.core.errors import StageError, install_extra, message_of
from advisor.core.units import show_bytes
from advisor.isolation import NETWORK, WRITES_BELOW, CallLimits, ChildPool, Scratch

LIMITS = CallLimits(seconds=MOST_S, processes=2)
PACKAGE = "tensorflow_hub"


@contextmanager
def resolved(handle: str) -> Iterator[Path]:
    """Yield the folder of a handle's SavedModel for the block, and remove it afterwards.

    Raises:
        Unavailable: the package is not installed, or the handle cannot be resolved.
    """
    if importlib.util.find_spec(PACKAGE) is None:
        raise Unavailable(f"{redacted(handle)}: TensorFlow Hub needs {install_extra('hub')}")
    with client_for(handle):
        pass  # a server that is not there costs one short wait
    with Scratch() as folder:
        with ChildPool(folder / "log.txt", settings(folder)) as pool:
            try:
                model = Path(pool.call(f"{__name__}:download", handle, limits=LIMITS))
            except StageError as error:
                raise Unavailable(f"{redacted(handle)}: {error.message}") from error
        yield model


def settings(folder: Path) -> dict[str, str | None]:
    """Return the environment of a child that calls :func:`download` and writes below ``folder``.

    It has the network, by the proxy and the certificates that the user's pip is configured for.
    """
    transport = home_transport()
    proxy = {"http_proxy": transport.proxy, "https_proxy": transport.proxy} if transport.proxy else {}
    certificates = {"SSL_CERT_FILE": transport.ca_file} if transport.ca_file else {}
    files = {WRITES_BELOW: str(folder), "TFHUB_CACHE_DIR": str(folder), "TFHUB_MODEL_LOAD_FORMAT": "COMPRESSED"}
    return {NETWORK: "1", **files, **proxy, **certificates}


def download(handle: str, most_bytes: int = MAX_DOWNLOAD_BYTES) -> str:
    """Resolve a handle into a folder below ``TFHUB_CACHE_DIR`` and return that folder; for child processes.

    Raises:
        StageError: the server refuses or is silent, or what it sends is not a SavedModel's archive, has paths out of
            the archive, links, or more than ``most_bytes``.
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
    socket.setdefaulttimeout(PATIENCE_S)
    try:
        return str(tensorflow_hub.resolve(handle))
    except urllib.error.HTTPError as error:
        raise StageError(f"the server answers {error.code}") from error
    except (OSError, EOFError, ValueError, tarfile.TarError, OpError) as error:
        raise StageError(f"tensorflow-hub: {message_of(error)}") from error
