"""Combine what a model's file and its user say about it: labels, normalisation, licence."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.catalog.cards import Conversion
from advisor.catalog.catalogue import BACKGROUND, imagenet_labels
from advisor.catalog.user_models.master import ModelFacts
from advisor.core.errors import UsageError
from advisor.core.tasks import TASKS
from advisor.tflite.metadata import Metadata

IMAGENET = "imagenet"
MAX_LABELS_BYTES = 16 * 2**20
NOT_STATED = "not stated"


@dataclass(frozen=True)
class ModelDescription:
    """The user's description of a model; for empty fields and None, the file's metadata is used.

    Attributes:
        name: of the card; by default that of the file.
        labels: file with one label a line, or ``imagenet``.
        mean: subtracted from RGB 0..255, one number or three.
        std: what the difference is divided by, one number or three.
        licence: of the model.
        family: of the card.
        top1: accuracy in percent, which a search without images quotes.
    """

    name: str = ""
    labels: str = ""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    licence: str = ""
    family: str = "own"
    top1: float | None = None


@dataclass(frozen=True)
class Inspected:
    """A model that can become a card: the float ``.tflite`` made from it, and what is known about it.

    ``origin`` is where the file came from, for the card's note; by default its name. ``top1`` is the ImageNet accuracy
    in percent that the origin publishes.
    """

    file: Path
    prepared: Path
    facts: ModelFacts
    conversion: Conversion | None = None
    origin: str = ""
    top1: float | None = None


def missing(inspected: Inspected, given: ModelDescription) -> tuple[str, ...]:
    """Return what neither the file nor the user states: any of ``labels``, ``mean``, ``std``."""
    written = inspected.facts.metadata
    return tuple(name for name in ("labels", "mean", "std") if not getattr(given, name) and not getattr(written, name))


def described_by(inspected: Inspected, given: ModelDescription, name: str) -> Metadata:
    """Return the description for the card and its file: the user's values, else those in the file.

    Raises:
        UsageError: a needed value is missing, or labels or normalisation do not fit the model.
    """
    lacking = missing(inspected, given)
    if lacking:
        flags = " and ".join(f"--{flag}" for flag in lacking)
        raise UsageError(f"{inspected.file} does not say its {', '.join(lacking)}: give {flags}", _FLAGS)
    task = TASKS[inspected.facts.task]
    if given.top1 is not None and not task.published:
        raise UsageError(f"--top1: {given.top1:g} is no figure of {task.name}, which has {task.metric}", "leave it out")
    written = inspected.facts.metadata
    found = replace(
        written,
        name=name,
        labels=_labels(given.labels, inspected.facts.classes) if given.labels else written.labels,
        mean=given.mean or written.mean,
        std=given.std or written.std,
        licence=given.licence or written.licence or NOT_STATED,
    )
    _check(found, inspected.facts.classes)
    return found


_FLAGS = (
    "for example --labels labels.txt --mean 127.5 --std 127.5, which makes -1..1 of RGB 0..255; "
    "--mean 0 --std 1 where the model scales by itself; --labels imagenet for ImageNet's classes"
)


def _check(metadata: Metadata, classes: int) -> None:
    if len(metadata.labels) != classes:
        raise UsageError(
            f"--labels: {len(metadata.labels)} labels do not fit a model of {classes} classes",
            "one label a line; the background of a detector is no class",
        )
    for flag, values in (("--mean", metadata.mean), ("--std", metadata.std)):
        if len(values) not in (1, 3) or not all(math.isfinite(value) for value in values):
            raise UsageError(f"{flag}: {values} is not one number or three", "write for example 127.5, or 124,116,104")
    if min(metadata.std) <= 0:
        raise UsageError(f"--std: {metadata.std} is not above zero", "--std 1 divides by nothing")


def _labels(given: str, classes: int) -> tuple[str, ...]:
    if given == IMAGENET:
        names = imagenet_labels()
        return (BACKGROUND, *names) if classes == len(names) + 1 else names
    path = Path(given)
    try:
        if path.stat().st_size > MAX_LABELS_BYTES:
            raise UsageError(f"--labels: {path} has more than {MAX_LABELS_BYTES} bytes", "one label a line")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--labels: '{path}' cannot be read ({error})", "one label a line, in UTF-8") from error
    return tuple(line.strip() for line in lines if line.strip())
