"""Keep the fit of the predictor in the cache:
it takes a second of CPU time, and each command needs the same one.

A fit is one ``.npz`` file under ``predictors/``. Its name is a hash of the measurements, of the
modules in :data:`CODE` and of NumPy's version. Add a module to that list if a fit depends on it.
"""

import hashlib
import io
import logging
import zipfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from advisor.devices._latency.base import Base, fit_base
from advisor.devices._latency.model_space import ModelSpace
from advisor.devices._latency.table import LatencyTable
from advisor.store import cache_root, write_atomically

FOLDER = "predictors"
MOST_FILES = 8  # Fits that are kept: each team's devices and each version of the package have one
ARRAYS = ("filled", "smooth", "weights", "levels")
CODE = (
    "base.py",
    "model_space.py",
    "table.py",
    "architecture.py",
    "features.py",
    "kept_base.py",
)
"""Modules that decide a fit. A kept one counts only if they have not changed."""

_log = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def find_base(table: LatencyTable) -> Base:
    """Return the fit of a table: the one of this process, the one that is kept, or a new one,
    which is kept.
    """
    base = recall_base(table)
    if base is None:
        base = fit_base(table)
        keep_base(base)
    return base


def recall_base(table: LatencyTable) -> Base | None:
    """Return the kept fit of a table; None if there is none, or if its file is damaged."""
    path = _find_path(table)
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ARRAYS}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        _log.debug("the fit in %s cannot be read: %s", path, error)
        return None
    columns, models = table.values.shape
    shapes = ((columns, models), (columns, models), (models, columns), (columns,))
    if any(arrays[name].shape != shape for name, shape in zip(ARRAYS, shapes, strict=True)):
        return None
    # A file that was cut off or changed may still unpack,
    # and its figures would spread into every prediction.
    if not all(
        array.dtype == np.float64 and np.isfinite(array).all() for array in arrays.values()
    ):
        return None
    space = ModelSpace(table.features, table.families)
    return Base(table, space, space.within(), **arrays)


def keep_base(base: Base) -> None:
    """Keep a fit for later commands, unless the cache cannot be written: then each fits anew."""
    path = _find_path(base.table)
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **{name: getattr(base, name) for name in ARRAYS})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content.getvalue(), MOST_FILES)
    except OSError as error:
        _log.debug("the fit of the predictor is not kept: %s", error)


def _find_path(table: LatencyTable) -> Path:
    key = hashlib.sha256(
        f"{table.fingerprint()} {_hash_code()} {np.__version__}".encode()
    ).hexdigest()
    return cache_root() / FOLDER / f"{key[:32]}.npz"


@lru_cache(maxsize=1)
def _hash_code() -> str:
    """Return a hash of the code that decides a fit."""
    digest = hashlib.sha256()
    for name in CODE:
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()
