"""Turn a user's model into a card: :func:`inspect` reads it, :func:`add` names, runs and stores it."""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from advisor.catalog.cards import Card, Conversion, Preprocessing
from advisor.catalog.catalogue import load_catalogue, user_catalogue_file, with_card
from advisor.catalog.user_models.description import NOT_STATED, Inspected, ModelDescription, described_by, missing
from advisor.catalog.user_models.formats import format_of
from advisor.catalog.user_models.master import ModelFacts
from advisor.core.errors import StageError, UsageError
from advisor.core.tasks import TASKS
from advisor.core.units import show_bytes, show_seconds
from advisor.isolation import WRITES_BELOW, CallLimits, ChildPool, Scratch
from advisor.store import cache_root
from advisor.store.cache import import_path, is_installed
from advisor.store.files import sha256_file, write_atomically
from advisor.tflite.metadata import Metadata

MODELS = "models"
_WORK = "advisor.catalog.user_models.master"
CONVERT_LIMITS = CallLimits(seconds=120, memory_bytes=6_000_000_000, processes=4)
RUN_LIMITS = CallLimits(seconds=60, memory_bytes=6_000_000_000, processes=4)
_NOTHING: Mapping[str, str] = MappingProxyType({})
BYTES_A_SECOND = 1_000_000
"""Each limit of time is a second longer for so many bytes of the model."""


@dataclass(frozen=True)
class ImportedModel:
    """The new card, its catalogue file, its model file, its answers to photographs, and its metadata's threshold."""

    card: Card
    catalogue: Path
    model: Path
    features: int | None
    seen: tuple[tuple[str, str, float], ...]
    threshold: float | None = None


@contextmanager
def inspect(file: Path, size: int | None = None, finished: bool = False) -> Iterator[Inspected]:
    """Convert ``file`` to a float ``.tflite`` in a child process; yield it for the block and remove it afterwards.

    Args:
        file: a file or folder of one of :data:`advisor.catalog.user_models.formats.FORMATS`.
        size: side of the input in pixels where the model leaves it open.
        finished: a float file is taken as it is, as a quantized one always is.

    Raises:
        UsageError: the file is missing, would run code of its own, exceeds a limit, or is not an image classifier or
            float detector.
    """
    packages = format_of(file).packages
    with Scratch() as folder:
        if packages and not is_installed(packages):
            _in_child(folder, RUN_LIMITS, _size_bytes(file), "check_file", file, size)
        found = {"PYTHONPATH": import_path(packages)} if packages else {}
        converted, prepared = folder / "converted.tflite", folder / "model.tflite"
        conversion: Conversion | None = _in_child(
            folder, CONVERT_LIMITS, _size_bytes(file), "convert_file", file, size, converted, environment=found
        )
        size_bytes = converted.stat().st_size
        facts: ModelFacts = _in_child(
            folder, RUN_LIMITS, size_bytes, "prepare", converted, str(file), prepared, finished
        )
        converted.unlink()
        yield Inspected(file, prepared, facts, conversion)


def add(inspected: Inspected, given: ModelDescription, into: Path | None = None) -> ImportedModel:
    """Run the model on photographs, store it next to the catalogue and add its card.

    The card goes ``into`` a catalogue file, created if it is missing; by default the user's own.

    Raises:
        UsageError: a value is missing, the name is taken, the labels do not fit, the answers are not those of the
            task, or the catalogue file cannot take a card. Nothing is stored then.
    """
    catalogue = user_catalogue_file() if into is None else into
    name = _name(inspected, given, catalogue)
    described = described_by(inspected, given, name)
    preprocessing = Preprocessing(_triple(described.mean), _triple(described.std))
    folder = inspected.prepared.parent
    work = partial(_in_child, folder, RUN_LIMITS, inspected.prepared.stat().st_size)
    work("describe", inspected.prepared, described)
    answers = work("answers_to_photographs", inspected.prepared, preprocessing, inspected.facts)
    model = catalogue.parent / MODELS / f"{name}.tflite"
    entry = _entry(inspected, given, described, sha256_file(inspected.prepared))
    _keep(inspected.prepared, model, catalogue, with_card(catalogue, entry))
    card = load_catalogue([catalogue]).card(name)
    seen = tuple((photograph, described.labels[label], probability) for photograph, label, probability in answers)
    return ImportedModel(card, catalogue, model, inspected.facts.features, seen, inspected.facts.metadata.threshold)


def _size_bytes(file: Path) -> int:
    paths = file.rglob("*") if file.is_dir() else (file,)
    return sum(path.stat().st_size for path in paths if path.is_file())


def _in_child(
    folder: Path,
    limits: CallLimits,
    size_bytes: int,
    work: str,
    *arguments: Any,
    environment: Mapping[str, str] = _NOTHING,
) -> Any:
    longer = replace(limits, seconds=limits.seconds + size_bytes / BYTES_A_SECOND)
    try:
        with ChildPool(folder / "log.txt", {WRITES_BELOW: str(folder), **environment}) as pool:
            return pool.call(f"{_WORK}:{work}", *arguments, limits=longer)
    except StageError as error:
        most = f"this step may take at most {show_seconds(longer.seconds)} and {show_bytes(longer.memory_bytes)}"
        raise UsageError(f"the model cannot be used: {error.message}", error.hint or most) from error


def _name(inspected: Inspected, given: ModelDescription, catalogue: Path) -> str:
    stem = re.sub(r"[^A-Za-z0-9_.+-]+", "_", inspected.file.resolve().stem).strip("_.+-")
    name = given.name or stem
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,119}", name):
        raise UsageError(f"--name: '{name}' is not a name", "letters, digits, '_', '.', '+' and '-', 120 at most")
    taken = load_catalogue([catalogue] if catalogue.is_file() else [])
    if name in taken or (catalogue.parent / MODELS / f"{name}.tflite").exists():
        raise UsageError(f"the name '{name}' is already taken", "choose another with --name")
    return name


def _entry(inspected: Inspected, given: ModelDescription, metadata: Metadata, sha256: str) -> dict[str, Any]:
    facts = inspected.facts
    own = TASKS[facts.task].own_cards
    assert own is not None, "the task took the file"
    entry = {
        "name": metadata.name,
        "family": given.family,
        "licence": metadata.licence,
        "paper": NOT_STATED,
        "architecture": own.finished if facts.form else own.architecture,
        **({"arguments": {"form": facts.form}} if facts.form else {}),
        "input_size": facts.input_size,
        "preprocessing": {"mean": list(_triple(metadata.mean)), "std": list(_triple(metadata.std))},
        "params": facts.params,
        "macs": facts.macs,
        "classes": facts.classes,
        "note": f"{'taken as it is' if facts.form else 'made'} from {inspected.origin or inspected.file.name}"
        + ("" if facts.features else "; it cannot be retrained on images"),
    }
    if given.top1 is not None:
        entry["published"] = [{"precision": "float32", "source": "stated when it was added", "top1": given.top1}]
    elif inspected.top1 is not None:
        entry["published"] = [{"precision": "float32", "source": inspected.origin, "top1": inspected.top1}]
    if inspected.conversion is not None:
        entry["conversion"] = asdict(inspected.conversion)
    file = {
        "path": f"{MODELS}/{metadata.name}.tflite",
        "sha256": sha256,
        "size_bytes": inspected.prepared.stat().st_size,
    }
    entry["weights"] = [{"kind": "file", "format": "tflite", "port": "whole", "file": file}]
    return entry


def _keep(prepared: Path, model: Path, catalogue: Path, text: str) -> None:
    """Store the model and the catalogue; if the new catalogue cannot be read, restore the old state."""
    before = catalogue.read_bytes() if catalogue.is_file() else None
    model.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(prepared, model)
    try:
        write_atomically(catalogue, text.encode())
        load_catalogue([catalogue])
    except BaseException:
        model.unlink()
        write_atomically(catalogue, before) if before is not None else catalogue.unlink(missing_ok=True)
        raise


def _triple(values: tuple[float, ...]) -> tuple[float, float, float]:
    first, second, third = values * 3 if len(values) == 1 else values
    return first, second, third


SUFFIX = ".tflite"
FAMILY = "shipped"
VERSION = 1
"""Raised when the same file would become another card."""


def is_file(candidate: str) -> bool:
    """Return whether a candidate is the path of a file, not the name of a card."""
    return candidate.endswith(SUFFIX)


def shipped_card(file: Path, catalogs: Sequence[Path] = ()) -> tuple[Card, Path]:
    """Return a card of a finished file for a ``.tflite`` classifier, and the catalogue file that has it.

    A copy of the file and the catalogue are kept in the cache, by the hash of the file.

    Args:
        file: the file, with labels and normalisation in its metadata.
        catalogs: the user's other catalogue files, whose names are taken.

    Raises:
        UsageError: the file is missing, is no image classifier, or does not state its labels and normalisation.
    """
    if not file.is_file():
        raise UsageError(
            f"--candidates: there is no file '{file}'", "give the path of a .tflite file, or a card's name"
        )
    name = _card_name(file, catalogs)
    catalogue = cache_root() / "shipped" / f"{sha256_file(file)[:32]}-{VERSION}-{name}" / "catalog.yaml"
    if not catalogue.is_file():
        shutil.rmtree(catalogue.parent, ignore_errors=True)
        catalogue.parent.mkdir(parents=True)
        try:
            _add(file, ModelDescription(name=name, family=FAMILY), catalogue)
        except UsageError as error:
            shutil.rmtree(catalogue.parent, ignore_errors=True)
            raise UsageError(f"--candidates: {error.message}", error.hint) from None
    return load_catalogue([*catalogs, catalogue]).card(name), catalogue


def _add(file: Path, given: ModelDescription, catalogue: Path) -> None:
    with inspect(file, finished=True) as inspected:
        lacking = missing(inspected, given)
        if lacking:
            raise UsageError(
                f"{file} does not say its {', '.join(lacking)}",
                f"add it once, and name the card: advisor catalog add {file} --as-it-is --labels labels.txt "
                "--mean 127.5 --std 127.5",
            )
        add(inspected, given, catalogue)


def _card_name(file: Path, catalogs: Sequence[Path]) -> str:
    """Return the file's name as the name of a card, with a suffix where a card has it."""
    stem = re.sub(r"[^A-Za-z0-9_.+-]+", "_", file.resolve().stem).strip("_.+-")[:100] or FAMILY
    return f"{stem}-{FAMILY}" if stem in load_catalogue(catalogs) else stem
