"""Check the arguments of ``advisor compress`` before any work starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.catalog.user_models.own_files import task_of
from advisor.compression.calibration import CalibrationImages, spec_of_file
from advisor.compression.recipes import Recipe, recipe
from advisor.compression.recipes.suitable import require_plain_float
from advisor.compression.user_model.by_task import KINDS, TaskFiles
from advisor.compression.user_model.images import CompressionImages, ImageRequest
from advisor.compression.user_model.samples import SampleParts, Samples, read_samples
from advisor.core.errors import StageError, UnsupportedRecipe, UsageError
from advisor.core.tasks import TASKS
from advisor.datasets.images import InputSpec
from advisor.measurement.accelerators.rules import accelerator
from advisor.store.files import ensure_output_dir
from advisor.tflite.float16 import to_float32
from advisor.tflite.interface import with_fixed_batch
from advisor.tflite.metadata import Metadata, read_metadata
from advisor.tflite.metadata_writer import write_metadata
from advisor.tflite.model import read
from advisor.tflite.postprocess import split_postprocess

FLOAT = "float32"
ON_CPU = "xnnpack"
LEARN_S = 600.0
OR_SAMPLES = "for a model of other inputs or outputs, give samples of its inputs with --samples inputs.npz"


@dataclass(frozen=True)
class CompressionQuestion:
    """The recipes to apply, the file, and the images for it.

    Attributes:
        model: the float file: that of the user, or a copy in ``folder`` with its batch fixed and its weights widened.
        recipes: float32 first, then those asked for.
        spec: how it reads images; None with samples.
        metadata: its labels and licence, written into every file; None if it has no labels.
        images: to calibrate, train and score on.
        folder: where the files go.
        max_drop_points: points that a file may lose against float; None for no limit.
        seed: of every draw.
        task: name of the task that the file is for.
        accelerator: whose operators are counted.
        learn_s: time that a recipe that scores or trains may take; it then returns the best result so far.
        stem: of the names of the files.
        samples: samples of its inputs, which stand in for images; None for images.
    """

    model: Path
    recipes: tuple[Recipe, ...]
    spec: InputSpec | None
    metadata: Metadata | None
    images: CompressionImages
    folder: Path
    max_drop_points: float | None
    seed: int
    task: str
    accelerator: str = ON_CPU
    learn_s: float = LEARN_S
    stem: str = ""
    samples: SampleParts | None = None

    @property
    def calibration(self) -> CalibrationImages | Samples:
        """Source of the calibration of the forms."""
        if self.samples is not None:
            return self.samples.calibration
        assert self.spec is not None, "without samples there are images"
        return CalibrationImages(self.images.calibration, self.spec, self.seed)

    @property
    def kind(self) -> TaskFiles:
        """The kind of files of the task."""
        return KINDS[self.task]

    def path_of(self, name: str) -> Path:
        """Return where a recipe's file goes; a float file that recipes can start from is not copied."""
        return self.model if name == FLOAT else self.folder / f"{self.stem or self.model.stem}-{name}.tflite"


def ask(
    model: Path,
    recipes: Sequence[str],
    *,
    calibration: Path | None = None,
    data: Path | None = None,
    samples: Path | None = None,
    max_drop_points: float | None = None,
    to: Path | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    seed: int = 0,
    target: str = ON_CPU,
    learn_s: float = LEARN_S,
    force: bool = False,
    judged_only: bool = False,
) -> CompressionQuestion:
    """Check the arguments and read the images or samples; create the output folder.

    If the file has an open batch or float16 weights, the float file that recipes start from is written there, too. With
    ``judged_only`` there are no recipes, no folder is created, and the file may be quantized.

    Raises:
        UsageError: the file is damaged or no recipe applies to it, a recipe is unknown, images cannot be used, the
            normalisation is not known, a limit needs labels, or output files exist already.
    """
    chosen = () if judged_only else _recipes(recipes)
    accelerator(target)
    graph = read(model)
    task, given = task_of(graph), model.read_bytes()
    plain = given if judged_only else _plain(given, model.name)
    if max_drop_points is not None and data is None:
        raise UsageError("--max-drop limits the loss of accuracy, which needs labelled images", "give them with --data")
    parts, spec, metadata = None, None, None
    if samples is not None:
        _require_only(calibration=calibration, data=data, mean=mean, std=std)
        parts = _samples(samples, plain, model.name, task, seed)
        images = CompressionImages((), parts.calibration_source, (), (), parts.scored_source)
    else:
        metadata = read_metadata(given, model.name)
        try:
            spec = spec_of_file(model.name, graph, metadata, mean, std)
            classes = KINDS[task].classes(given, graph, model.name)
        except UsageError as error:
            raise error if judged_only else UsageError(error.message, f"{error.hint}; {OR_SAMPLES}") from None
        names = metadata.labels if metadata else ()
        if names and len(names) != classes:
            raise UsageError(f"{model.name} has {len(names)} labels and {classes} classes", "correct its metadata")
        needs = {one.needs for one in (recipe(FLOAT), *chosen)}
        images = KINDS[task].images(ImageRequest(calibration, data, spec, names, classes, seed, needs))
    folder = to or Path(f"{model.stem}-forms")
    question = CompressionQuestion(
        model,
        (recipe(FLOAT), *chosen),
        spec,
        _with_spec(metadata, spec) if spec else None,
        images,
        folder,
        max_drop_points,
        seed,
        task,
        target,
        learn_s,
        samples=parts,
    )
    if judged_only:
        return question
    made = [question.path_of(one.name).name for one in chosen]
    if plain == given:
        ensure_output_dir(folder, made, force)
        return question
    copy = folder / f"{model.stem}-{FLOAT}.tflite"
    ensure_output_dir(folder, [*made, copy.name], force)
    copy.write_bytes(write_metadata(plain, question.metadata) if question.metadata else plain)
    return replace(question, model=copy, stem=model.stem)


def _require_only(**others: object) -> None:
    given = next((name for name, value in others.items() if value is not None), None)
    if given:
        raise UsageError(f"--samples and --{given} cannot be combined", "samples are the model's inputs as they are")


def _samples(path: Path, plain: bytes, name: str, task: str, seed: int) -> SampleParts:
    if not TASKS[task].probabilities:
        raise UsageError(f"--samples: {name} is a detector, and boxes have no SNR", "give images with --calibration")
    return read_samples(path, read(plain, name), seed)


def _recipes(names: Sequence[str]) -> tuple[Recipe, ...]:
    chosen = tuple(recipe(name) for name in dict.fromkeys(names) if name != FLOAT)
    if not chosen:
        raise UsageError("--recipe names only float32, which is the file itself", "for example --recipe int8,rounded")
    return chosen


def _plain(given: bytes, name: str) -> bytes:
    """Return the float file that recipes start from: with a batch of one image, and its weights in float32.

    Raises:
        UsageError: no recipe applies to the file.
    """
    try:
        plain = to_float32(with_fixed_batch(given, name), name)
        raw, _ = split_postprocess(plain, name)
        require_plain_float(raw, "compress")
    except (UnsupportedRecipe, StageError) as error:
        reason = error.message.removeprefix("compress does not apply: ")
        raise UsageError(f"{name} cannot be compressed: {reason}", error.hint) from None
    return plain


def _with_spec(metadata: Metadata | None, spec: InputSpec) -> Metadata | None:
    """Return the metadata for every file: that of the float file, with the normalisation in use."""
    if metadata is None or not metadata.labels:
        return None
    return replace(metadata, mean=spec.mean, std=spec.std)
