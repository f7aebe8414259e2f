"""Adjust the head of a quantized classifier to its own backbone: the job, in a child process.

The walker calls :func:`adjust_head` by its name and by position. Beside the compared file it
leaves :data:`SHIPS_FILE`, from which the job of the file that ships takes its head: both are in
the cache, so another content needs a new version of the stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.core import StageError
from advisor.isolation import usable_cores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from advisor.core import HeadFacts
    from advisor.datasets import InputSpec

    Fitted = tuple[NDArray[np.float32], NDArray[np.float32]]

MATCHED_IMAGES = 400
"""Images on which logits are matched:
on TrashNet and groceries, 800 gave the same accuracy, 200 a little less.
"""

SHIPS_FILE = "ships.npz"
RANGE_ROWS = 256
"""The head that ships, beside the compared file whose backbone it shares, and the features that
give its ranges. It has these features alone where the compared file kept its head: then the one
that ships keeps its own, too.
"""

KEPT = "kept"
MATCHED = "matched"
REFITTED = "refitted"
"""The outcome for the head, in the notes of a file."""


@dataclass(frozen=True)
class HeadImages:
    """Images for the head of a quantized file:
    their files, classes and groups, and the rows ``train`` to learn from.

    ``head`` says how the head was fitted, ``features`` are files of the float backbone's features
    of the images, and ``backbone`` is that float file. Without a ``head``, the logits of the float
    file are matched.
    """

    paths: tuple[Path, ...]
    labels: tuple[int, ...]
    groups: tuple[int, ...]
    train: tuple[int, ...]
    classes: int
    seed: int
    head: HeadFacts | None = None
    features: tuple[Path, ...] = ()
    backbone: Path | None = None


def adjust_head(
    model: Path,
    floats: Path,
    images: HeadImages,
    spec: InputSpec,
    compared: Path | None,
    figures: Mapping[str, int],
    notes: Mapping[str, Any],
    path: Path,
) -> dict[str, Any]:
    """Write a quantized classifier whose head fits the features that its own backbone gives;
    return figures and notes.

    ``floats`` is the float file that it was made from, and ``compared`` the adjusted file of the
    compared model: a file with the same backbone takes the head that was found there. Where no
    other head is better on images that it did not learn from, that of the float file is rounded
    again. A file that takes no head stays as it is.
    """
    from advisor.compression import round_dense
    from advisor.tflite import read_head, with_head

    data = model.read_bytes()
    change = KEPT
    try:
        known = _read_known_head(model, compared) if compared else None
        head, rows = known or _find_head(model, floats, images, spec, path)
        if head:
            change = REFITTED if images.head else MATCHED
        weights, bias = head or read_head(floats.read_bytes(), floats.name)
        data = with_head(data, weights, bias, rows, round_dense, model.name)
    except StageError as error:
        change = f"{KEPT}: {error.message}"
    path.write_bytes(data)
    return {**figures, "notes": {**notes, "head": change}}


def _read_known_head(model: Path, compared: Path) -> tuple[Fitted | None, Any] | None:
    """Return the head that ships and rows of features, which the job of the compared file left;
    None if it left nothing, or if the backbones differ.
    """
    file = compared.with_name(SHIPS_FILE)
    if not _have_same_backbone(model, compared) or not file.is_file():
        return None
    with np.load(file, allow_pickle=False) as arrays:
        head = (arrays["weights"], arrays["bias"]) if "weights" in arrays else None
        return head, arrays["rows"]


def _have_same_backbone(model: Path, other: Path) -> bool:
    from advisor.tflite import with_probe

    # The file up to its features is its backbone.
    backbone = with_probe(model.read_bytes(), model.name, logits=False)
    return backbone == with_probe(other.read_bytes(), other.name, logits=False)


def _find_head(
    model: Path,
    floats: Path,
    images: HeadImages,
    spec: InputSpec,
    path: Path,
) -> tuple[Fitted | None, Any]:
    """Return a better head, None if that of the float file is as good,
    and the features of the images.
    """
    from advisor.tflite import read_head
    from advisor.training import match_logits

    rows = _extract_features(model, images, spec, path)
    if images.head:
        return _refit_head(rows, images, path), rows
    float_rows = _extract_features(floats, images, spec, path, logits=True)
    float_logits = float_rows[:, -images.classes :]
    head = match_logits(rows, float_logits, *read_head(floats.read_bytes(), floats.name))
    return head, rows


def _extract_features(
    model: Path,
    images: HeadImages,
    spec: InputSpec,
    path: Path,
    logits: bool = False,
) -> Any:
    """Return the features that a file computes of the images, with its logits if asked."""
    from advisor.tflite import with_probe
    from advisor.training import extract_features

    probed = path.with_suffix(".probe")
    probed.write_bytes(with_probe(model.read_bytes(), model.name, logits))
    rows = extract_features(probed, images.paths, spec, threads=usable_cores(for_job=True))
    probed.unlink()
    return rows


def _refit_head(rows: NDArray[np.float32], images: HeadImages, path: Path) -> Fitted | None:
    """Return the head that was refitted to the rows to learn from, if it is better;
    write what the file that ships needs.
    """
    from advisor.tflite import last_width
    from advisor.training import fit_head, join_parts, refit_head

    assert images.head and images.backbone, "the images come with how the head was fitted"  # noqa: PT018
    train = list(images.train)
    last = last_width(images.backbone.read_bytes())
    labels = [images.labels[row] for row in train] if images.labels else []
    groups = [images.groups[row] for row in train] if images.groups else []
    features = join_parts(images.features, np.asarray(train))[:, : rows.shape[1]]
    head = refit_head(
        rows[train], features, labels, images.classes, images.head, last, images.seed, groups
    )
    # A model that learns from some of the rows is the compared one: another will ship.
    if len(train) < len(rows):
        spread = np.linspace(0, len(rows) - 1, min(len(rows), RANGE_ROWS)).astype(int)
        ships = {"rows": rows[spread]}
        if head is not None:
            strength = images.head.regularization
            kind = images.head.kind
            weights, bias = fit_head(rows, images.labels, images.classes, strength, (), kind, last)
            ships |= {"weights": weights, "bias": bias}
        np.savez(path.with_name(SHIPS_FILE), allow_pickle=False, **ships)
    return head
