"""Turn a user's model into a card: :func:`inspect` reads it, :func:`add` runs and stores it.

`advisor catalog add` calls both, and a search :func:`make_shipped_card` for a file that it names
by its path. The work on the file runs in child processes, which import functions of `master.py` by
their names. Cards and models are written into the user's catalogue; on an error, nothing is kept.
"""

import math
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.catalog._cards import Card, Conversion, Preprocessing
from advisor.catalog._catalogue import (
    BACKGROUND,
    Catalogue,
    imagenet_labels,
    user_catalogue_file,
    with_card,
)
from advisor.catalog._user_models.formats import format_of
from advisor.catalog._user_models.master import ModelFacts
from advisor.core import (
    TASKS,
    StageError,
    UsageError,
    require_training,
    show_bytes,
    show_seconds,
    units,
)
from advisor.isolation import CallLimits, ChildPool, Children, Scratch
from advisor.store import cache_root, files_below, read_labels, sha256_file, write_atomically
from advisor.tflite import Metadata

if TYPE_CHECKING:
    from advisor.catalog._user_models.packages import LocalModel

MODELS = "models"
SUFFIX = ".tflite"
FAMILY = "shipped"
IMAGENET = "imagenet"
NOT_STATED = "not stated"
MAX_LABELS_BYTES = 16 * 2**20
CONVERT_LIMITS = CallLimits(seconds=180, memory_bytes=6_000_000_000, processes=4)
RUN_LIMITS = CallLimits(seconds=60, memory_bytes=6_000_000_000, processes=4)
BYTES_A_SECOND = 1_000_000
"""Each limit of time is a second longer for so many bytes of the model."""

LEAST_DIVISOR = 16
"""A division by as much or more is for pixels of 0..255; a second one leaves values below 1."""

VERSION = 1
"""Raised when the same shipped file would become another card."""

_WORK = "advisor.catalog._user_models.master"
_FLAGS = (
    "for example --labels labels.txt --mean 127.5 --std 127.5, which makes -1..1 of RGB 0..255; "
    "--mean 0 --std 1 where the model scales by itself; --labels imagenet for ImageNet's classes"
)


@dataclass(frozen=True)
class ModelDescription:
    """The user's description of a model; for empty fields and None, the file's metadata is used.

    ``labels`` is a file with one label a line, or ``imagenet``; ``mean`` and ``std`` are of RGB
    0..255, one number or three; ``top1`` is in percent.
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
    """A model that can become a card: the ``.tflite`` made from it, or a finished file, and its
    facts.

    ``children`` work on it. ``origin`` is where the file came from, for the card's note; by
    default its name. ``top1`` is the ImageNet accuracy in percent that the origin publishes.
    """

    file: Path
    prepared: Path
    children: Children
    facts: ModelFacts
    conversion: Conversion | None = None
    origin: str = ""
    top1: float | None = None

    def of(self, source: "LocalModel") -> "Inspected":
        """Return the model with what its source says of it."""
        facts = replace(self.facts, metadata=source.metadata or self.facts.metadata)
        return replace(self, origin=source.origin, top1=source.top1, facts=facts)

    def ask_for_missing(
        self, description: ModelDescription, ask: Callable[[str], str] | None
    ) -> ModelDescription:
        """Ask for the values that neither the file nor the description gives."""
        if ask is None:
            return description
        answers = dict[str, Any]()
        for name in list_missing(self, description):
            answers[name] = ask(name)
        for name in answers.keys() & {"mean", "std"}:
            answers[name] = units.channel_values(answers[name], f"--{name}")
        return replace(description, **answers)


@dataclass(frozen=True)
class ImportedModel:
    """The new card, its files, its answers to photographs, and its metadata's threshold.

    ``warning`` says what is probably wrong with the description; empty if nothing is.
    """

    card: Card
    catalogue: Path
    model: Path
    features: int | None
    seen: tuple[tuple[str, str, float], ...]
    threshold: float | None = None
    warning: str = ""


def list_missing(inspected: Inspected, description: ModelDescription) -> tuple[str, ...]:
    """Return what neither the file nor the user states: any of ``labels``, ``mean``, ``std``."""
    written = inspected.facts.metadata
    missing = []
    for name in ("labels", "mean", "std"):
        if not getattr(description, name) and not getattr(written, name):
            missing.append(name)
    return tuple(missing)


def _describe_model(inspected: Inspected, description: ModelDescription, name: str) -> Metadata:
    """Return the description for the card and its file: the user's values, else the file's."""
    lacking = list_missing(inspected, description)
    written = inspected.facts.metadata
    classes = inspected.facts.classes
    if lacking:
        flags = " and ".join(f"--{flag}" for flag in lacking)
        raise UsageError(
            f"{inspected.file} does not say its {', '.join(lacking)}: give {flags}", _FLAGS
        )
    task = TASKS[inspected.facts.task]
    if description.top1 is not None and not task.published:
        raise UsageError(
            f"--top1: {description.top1:g} is no figure of {task.name}, which has {task.metric}",
            "leave it out",
        )
    labels = _choose_labels(description.labels, classes) if description.labels else written.labels
    licence = description.licence or written.licence or NOT_STATED
    mean = description.mean or written.mean
    std = description.std or written.std
    if len(labels) != classes:
        raise UsageError(
            f"--labels: {len(labels)} labels do not fit a model of {classes} classes",
            "one label a line; the background of a detector is no class",
        )
    for flag, values in (("--mean", mean), ("--std", std)):
        if len(values) not in (1, 3) or not all(map(math.isfinite, values)):
            raise UsageError(
                f"{flag}: {values} is not one number or three",
                "write for example 127.5, or 124,116,104",
            )
    if min(std) <= 0:
        raise UsageError(f"--std: {std} is not above zero", "--std 1 divides by nothing")
    return replace(written, name=name, labels=labels, mean=mean, std=std, licence=licence)


def _choose_labels(description: str, classes: int) -> tuple[str, ...]:
    if description == IMAGENET:
        names = imagenet_labels()
        if classes == len(names) + 1:
            return (BACKGROUND, *names)
        return names
    try:
        return read_labels(Path(description), MAX_LABELS_BYTES)
    except UsageError as error:
        raise UsageError(
            f"--labels: {error.message}", "name a file with one label a line, in UTF-8"
        ) from None


@contextmanager
def inspect(
    file: Path, size: int | None = None, finished: bool = False, task: str = ""
) -> Iterator[Inspected]:
    """Convert ``file`` to a float ``.tflite`` in a child process; yield it for the block.

    It is removed afterwards. A child without packages checks the file before. One other child does
    all work on it, so that what it imports is imported once.

    ``size`` is the side of the input in pixels where the model leaves it open. A ``finished``
    float file is taken as it is, as a quantized one always is. ``task`` is what the user says that
    the model does, if the file does not.

    Raises:
        UsageError: the file is missing, would run code of its own, exceeds a limit, or is not an
            image classifier or float detector.
    """
    form = format_of(file)
    if form.tensorflow:
        require_training(f"converting {form.what}")
    packages = form.packages
    paths = files_below(file) if file.is_dir() else [file]
    model_bytes = sum(path.stat().st_size for path in paths)
    with Scratch() as folder:
        log = folder / "log.txt"
        environment = {}
        if packages:
            # Before minutes of downloads, a file that is refused anyway is refused here.
            if not packages.are_installed:
                with ChildPool(log, writes_below=folder) as pool:
                    _call_child(pool, RUN_LIMITS, model_bytes, "check_file", file, size)
            environment["PYTHONPATH"] = packages.import_path()
        prepared = folder / "model.tflite"
        with ChildPool(log, environment, writes_below=folder) as pool:
            facts, conversion = _call_child(
                pool, CONVERT_LIMITS, model_bytes, "prepare", file, size, prepared, finished, task
            )
            yield Inspected(file, prepared, pool, facts, conversion)


def add(
    inspected: Inspected, description: ModelDescription, into: Path | None = None
) -> ImportedModel:
    """Run the model on photographs, store it next to the catalogue and add its card.

    The card goes ``into`` a catalogue file, created if it is missing; by default the user's own.

    Raises:
        UsageError: a value is missing, the name is taken, labels or normalisation do not fit the
            model, the answers are not those of the task, or the catalogue file cannot take a card.
            Nothing is stored then.
    """
    catalogue = user_catalogue_file() if into is None else into
    name = name_card(inspected.file, description, into)
    described = _describe_model(inspected, description, name)
    preprocessing = Preprocessing(
        _repeat_for_channels(described.mean), _repeat_for_channels(described.std)
    )
    model_bytes = inspected.prepared.stat().st_size
    facts = inspected.facts
    answers = _call_child(
        inspected.children,
        RUN_LIMITS,
        model_bytes,
        "describe",
        inspected.prepared,
        described,
        preprocessing,
        facts,
    )
    model = catalogue.parent / MODELS / f"{name}.tflite"
    text = with_card(catalogue, _make_entry(inspected, description, described))
    _store_model(inspected.prepared, model, catalogue, text)
    seen = []
    for photograph, label, probability in answers:
        seen.append((photograph, described.labels[label], probability))
    return ImportedModel(
        card=Catalogue.load([catalogue]).card(name),
        catalogue=catalogue,
        model=model,
        features=facts.features,
        seen=tuple(seen),
        threshold=facts.metadata.threshold,
        warning=warn_of_scale(facts.scale, described.std),
    )


def warn_of_scale(scale: float, std: Sequence[float]) -> str:
    """Return a warning if the graph and ``--std`` both make small values of 0..255.

    It is empty otherwise. ``scale`` is what the graph multiplies its input by.
    """
    if scale > 1 / LEAST_DIVISOR or min(std) < LEAST_DIVISOR:
        return ""
    written = ",".join(f"{value:g}" for value in dict.fromkeys(std))
    return (
        f"the graph scales its input by itself (times {scale:.3g}), and --std {written} scales it"
        " before: the network sees almost one grey. If it was trained on pixels of 0..255, add it"
        " again with --mean 0 --std 1"
    )


def _call_child(
    children: Children,
    limits: CallLimits,
    size_bytes: int,
    work: str,
    *arguments: Any,
) -> Any:
    longer = replace(limits, seconds=limits.seconds + size_bytes / BYTES_A_SECOND)
    try:
        return children.call(f"{_WORK}:{work}", *arguments, limits=longer)
    except StageError as error:
        most = (
            f"this step may take at most {show_seconds(longer.seconds)} and"
            f" {show_bytes(longer.memory_bytes)}"
        )
        raise UsageError(
            f"the model cannot be used: {error.message}", error.hint or most
        ) from error


def name_card(file: Path, description: ModelDescription, into: Path | None) -> str:
    """Return the name of the card that a file gets, before minutes of conversion.

    UsageError is raised if the name is none, or is taken, or the catalogue file ``into``
    cannot be written.
    """
    catalogue = user_catalogue_file() if into is None else into
    for place in catalogue.absolute().parents:
        if place.is_file():
            why = f"--into: '{place}' is a file, and '{catalogue}' needs a folder there"
            raise UsageError(why, "name another file")
    name = description.name or _make_stem(file)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,119}", name):
        raise UsageError(
            f"--name: '{name}' is not a name",
            "letters, digits, '_', '.', '+' and '-', 120 at most",
        )
    taken = Catalogue.load([catalogue] if catalogue.is_file() else [])
    if name in taken or (catalogue.parent / MODELS / f"{name}.tflite").exists():
        raise UsageError(f"the name '{name}' is already taken", "choose another with --name")
    return name


def _make_stem(file: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]+", "_", file.resolve().stem).strip("_.+-")


def _make_entry(
    inspected: Inspected, description: ModelDescription, metadata: Metadata
) -> dict[str, Any]:
    """Return the card as an entry of a catalogue file."""
    facts = inspected.facts
    prepared = inspected.prepared
    own_cards = TASKS[facts.task].own_cards
    assert own_cards is not None, "the task took the file"
    note = f"made from {inspected.origin or inspected.file.name}"
    architecture = own_cards.architecture
    arguments = {}
    if facts.form:
        note = f"taken as it is from {inspected.origin or inspected.file.name}"
        architecture = own_cards.finished
        arguments = {"arguments": {"form": facts.form}}
    if not facts.features:
        note += "; it cannot be retrained on images"
    entry = {
        "name": metadata.name,
        "family": description.family,
        "licence": metadata.licence,
        "paper": NOT_STATED,
        "architecture": architecture,
        **arguments,
        "input_size": facts.input_size,
        "preprocessing": {
            "mean": list(_repeat_for_channels(metadata.mean)),
            "std": list(_repeat_for_channels(metadata.std)),
        },
        "params": facts.params,
        "macs": facts.macs,
        "classes": facts.classes,
        "note": note,
    }
    top1 = description.top1
    source = "stated when it was added"
    if top1 is None:
        top1 = inspected.top1
        source = inspected.origin
    if top1 is not None:
        entry["published"] = [{"precision": "float32", "source": source, "top1": top1}]
    if inspected.conversion is not None:
        entry["conversion"] = asdict(inspected.conversion)
    path = f"{MODELS}/{metadata.name}.tflite"
    size_bytes = prepared.stat().st_size
    file = {"path": path, "sha256": sha256_file(prepared), "size_bytes": size_bytes}
    entry["weights"] = [{"kind": "file", "format": "tflite", "port": "whole", "file": file}]
    return entry


def _store_model(prepared: Path, model: Path, catalogue: Path, text: str) -> None:
    """Store the model and the catalogue; restore the old state if the new one cannot be read."""
    before = catalogue.read_bytes() if catalogue.is_file() else None
    model.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(prepared, model)
    try:
        # The file first, then the card: a card without its file would fail every later search.
        write_atomically(catalogue, text.encode())
        Catalogue.load([catalogue])
    except BaseException:
        model.unlink()
        if before is None:
            catalogue.unlink(missing_ok=True)
        else:
            write_atomically(catalogue, before)
        raise


def _repeat_for_channels(values: tuple[float, ...]) -> tuple[float, float, float]:
    first, second, third = values * 3 if len(values) == 1 else values
    return first, second, third


def make_shipped_card(
    file: Path, catalogs: Sequence[Path] = (), task: str = ""
) -> tuple[Card, Path]:
    """Return a card of a finished file for a ``.tflite`` model, and its catalogue file.

    ``task`` is that of the search, which tells what the model does where its file does not.

    A copy of the file and the catalogue are kept in the cache, by the hash of the file. The card
    has the name of the file, with a suffix where a card of the user's other catalogues,
    ``catalogs``, has it.

    Raises:
        UsageError: the file is missing, is no model that a task takes, or does not state its
            labels and normalisation.
    """
    if not file.is_file():
        raise UsageError(
            f"--candidates: there is no file '{file}'",
            "give the path of a .tflite file, or a card's name",
        )
    stem = _make_stem(file)[:100] or FAMILY
    name = stem
    if stem in Catalogue.load(catalogs):
        name = f"{stem}-{FAMILY}"
    # Under another task, the same file may become another card.
    folder_name = "-".join(filter(None, (sha256_file(file)[:32], str(VERSION), task, name)))
    catalogue = cache_root() / "shipped" / folder_name / "catalog.yaml"
    if not catalogue.is_file():
        shutil.rmtree(catalogue.parent, ignore_errors=True)
        catalogue.parent.mkdir(parents=True)
        try:
            with inspect(file, finished=True, task=task) as inspected:
                description = ModelDescription(name=name, family=FAMILY)
                lacking = list_missing(inspected, description)
                if lacking:
                    raise UsageError(
                        f"{file} does not say its {', '.join(lacking)}",
                        f"add it once, and name the card: advisor catalog add {file} --as-it-is"
                        " --labels labels.txt --mean 127.5 --std 127.5",
                    )
                add(inspected, description, catalogue)
        except UsageError as error:
            shutil.rmtree(catalogue.parent, ignore_errors=True)
            raise UsageError(f"--candidates: {error.message}", error.hint) from None
    return Catalogue.load([*catalogs, catalogue]).card(name), catalogue
