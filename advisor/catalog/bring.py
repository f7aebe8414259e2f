"""A user's own model becomes a card: looked at (:func:`inspect`), then named, labelled, run and kept (:func:`add`)."""

from __future__ import annotations

import math
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from advisor.catalog.cards import OWN_FILE, Card, Preprocessing
from advisor.catalog.catalogue import load_catalogue
from advisor.catalog.labels import BACKGROUND, imagenet_labels
from advisor.catalog.own import own_catalogue, with_card
from advisor.catalog.ownfile import Facts, Seen
from advisor.catalog.weights.digest import sha256_of
from advisor.core.errors import StageError, UsageError
from advisor.isolation import ChildPool, Limits
from advisor.tflite.metadata import Metadata

IMAGENET = "imagenet"
MAX_LABELS_BYTES = 16 * 2**20
MODELS = "models"

_WORK = "advisor.catalog.ownfile"
_LIMITS = Limits(seconds=600, memory_bytes=6_000_000_000)
_NOT_STATED = "not stated"


@dataclass(frozen=True)
class Given:
    """What the user says of the model; empty and None are read from the file where it says so.

    Attributes:
        name: of the card; by default that of the file.
        labels: file with one label a line, or ``imagenet``.
        mean: subtracted from RGB 0..255, one number or three.
        std: what the difference is divided by, one number or three.
        licence: of the model.
        family: of the card.
        top1: accuracy in percent, which a search without pictures quotes.
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
    """A model that can become a card: the float ``.tflite`` made from it, and what that says of itself."""

    file: Path
    prepared: Path
    facts: Facts


@dataclass(frozen=True)
class Added:
    """The new card, the catalogue file that holds it, its model, and what it answered to photographs."""

    card: Card
    catalogue: Path
    model: Path
    features: int | None
    seen: tuple[tuple[str, str, float], ...]


@contextmanager
def inspect(file: Path, size: int | None = None) -> Iterator[Inspected]:
    """Make ``file`` a float ``.tflite`` in a child process and say what is known of it; gone at the end of the block.

    Args:
        file: a ``.keras`` file, a ``.tflite`` file, or the folder of a SavedModel.
        size: side of the input in pixels where the model leaves it open.

    Raises:
        UsageError: the file is missing, would run code of its own, or is not a float picture classifier.
    """
    if not file.exists():
        raise UsageError(f"there is no file '{file}'", "give a .keras file, a .tflite file or a SavedModel's folder")
    with tempfile.TemporaryDirectory(prefix="advisor-add-") as folder:
        prepared = Path(folder) / "model.tflite"
        facts: Facts = _in_child(Path(folder), "prepare", file, size, prepared)
        yield Inspected(file, prepared, facts)


def missing(inspected: Inspected, given: Given) -> tuple[str, ...]:
    """What neither the file nor the user says: any of ``labels``, ``mean``, ``std``."""
    said = inspected.facts.metadata
    known = {"labels": bool(said and said.labels), "mean": bool(said and said.mean), "std": bool(said and said.std)}
    return tuple(name for name, is_known in known.items() if not is_known and not getattr(given, name))


def add(inspected: Inspected, given: Given, into: Path | None = None) -> Added:
    """Run the model over photographs, keep it beside the catalogue and add its card.

    Args:
        inspected: the model.
        given: what the user says of it.
        into: a catalogue file, made where it is missing; by default the user's own, which every search reads.

    Raises:
        UsageError: something is not said, a name that is taken, labels that do not fit, answers that are no
            probabilities, or a catalogue file that cannot take a card. Nothing is kept then.
    """
    catalogue = own_catalogue() if into is None else into
    name = _name(inspected, given, catalogue)
    described = _described(inspected, given, name)
    preprocessing = Preprocessing(_triple(described.mean), _triple(described.std))
    folder = inspected.prepared.parent
    _in_child(folder, "describe", inspected.prepared, described)
    seen = _in_child(folder, "look", inspected.prepared, preprocessing, inspected.facts.input_size)
    model = catalogue.parent / MODELS / f"{name}.tflite"
    entry = _entry(inspected, given, described, sha256_of(inspected.prepared))
    _keep(inspected.prepared, model, catalogue, with_card(catalogue, entry))
    card = load_catalogue([catalogue]).card(name)
    return Added(card, catalogue, model, inspected.facts.features, _answers(seen, described.labels))


def _in_child(folder: Path, work: str, *arguments: Any) -> Any:
    log = folder / "log.txt"
    try:
        with ChildPool(log) as pool:
            return pool.call(f"{_WORK}:{work}", *arguments, limits=_LIMITS)
    except UsageError:
        raise
    except StageError as error:
        raise UsageError(f"the model cannot be used: {error.message}", error.hint) from error


def _name(inspected: Inspected, given: Given, catalogue: Path) -> str:
    stem = re.sub(r"[^A-Za-z0-9_.+-]+", "_", inspected.file.resolve().stem).strip("_.+-")
    name = given.name or stem
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,119}", name):
        raise UsageError(f"--name: '{name}' is not a name: letters, digits, '_', '.', '+' and '-'")
    taken = load_catalogue([catalogue] if catalogue.is_file() else [])
    if name in taken or (catalogue.parent / MODELS / f"{name}.tflite").exists():
        raise UsageError(f"the name '{name}' is already taken", "choose another with --name")
    return name


def _described(inspected: Inspected, given: Given, name: str) -> Metadata:
    lacking = missing(inspected, given)
    if lacking:
        flags = " and ".join(f"--{flag}" for flag in lacking)
        raise UsageError(f"{inspected.file} does not say its {', '.join(lacking)}: give {flags}", _FLAGS)
    said = inspected.facts.metadata or Metadata("", (), (), ())
    found = replace(
        said,
        name=name,
        labels=_labels(given.labels, inspected.facts.classes) if given.labels else said.labels,
        mean=given.mean or said.mean,
        std=given.std or said.std,
        licence=given.licence or said.licence or _NOT_STATED,
    )
    _check(found, inspected.facts.classes)
    return found


_FLAGS = (
    "for example --labels labels.txt --mean 127.5 --std 127.5, which makes -1..1 of RGB 0..255; "
    "--mean 0 --std 1 where the model scales by itself; --labels imagenet for ImageNet's classes"
)


def _check(metadata: Metadata, classes: int) -> None:
    if len(metadata.labels) != classes:
        raise UsageError(f"--labels: {len(metadata.labels)} labels do not fit a model of {classes} classes")
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
            raise UsageError(f"--labels: {path} has more than {MAX_LABELS_BYTES} bytes")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--labels: '{path}' cannot be read ({error})", "one label a line, in UTF-8") from error
    return tuple(line.strip() for line in lines if line.strip())


def _entry(inspected: Inspected, given: Given, metadata: Metadata, sha256: str) -> dict[str, Any]:
    facts = inspected.facts
    entry = {
        "name": metadata.name,
        "family": given.family,
        "licence": metadata.licence,
        "paper": _NOT_STATED,
        "architecture": OWN_FILE,
        "input_size": facts.input_size,
        "preprocessing": {"mean": list(_triple(metadata.mean)), "std": list(_triple(metadata.std))},
        "params": facts.params,
        "macs": facts.macs,
        "classes": facts.classes,
        "note": f"made from {inspected.file.name}" + ("" if facts.features else "; it cannot be retrained on pictures"),
    }
    if given.top1 is not None:
        entry["published"] = [{"precision": "float32", "source": "stated when it was added", "top1": given.top1}]
    file = {
        "path": f"{MODELS}/{metadata.name}.tflite",
        "sha256": sha256,
        "size_bytes": inspected.prepared.stat().st_size,
    }
    entry["weights"] = [{"kind": "file", "format": "tflite", "port": "whole", "file": file}]
    return entry


def _keep(prepared: Path, model: Path, catalogue: Path, text: str) -> None:
    """Put model and catalogue in their places; where the catalogue does not read, leave both as they were."""
    before = catalogue.read_bytes() if catalogue.is_file() else None
    model.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(prepared, model)
    try:
        _write_whole(catalogue, text.encode())
        load_catalogue([catalogue])
    except BaseException:
        model.unlink()
        _write_whole(catalogue, before) if before is not None else catalogue.unlink(missing_ok=True)
        raise


def _write_whole(path: Path, data: bytes) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(data)
    fresh.replace(path)


def _answers(seen: tuple[Seen, ...], labels: tuple[str, ...]) -> tuple[tuple[str, str, float], ...]:
    return tuple((entry.photograph, labels[entry.label], entry.probability) for entry in seen)


def _triple(values: tuple[float, ...]) -> tuple[float, float, float]:
    first, second, third = values * 3 if len(values) == 1 else values
    return first, second, third
