"""Check the arguments of ``advisor compress`` and of ``advisor.api.judge``, before any work.

``prepare_compression`` returns the question, which ``compress.py`` answers. What cannot be
compressed is refused here, before the output folder is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Unpack

from advisor.catalog import task_of
from advisor.compression import Needs, Recipe, recipe, require_float
from advisor.core import (
    DEFAULT_TASK,
    FLOAT,
    CompressKeywords,
    Limits,
    StageError,
    UnsupportedRecipe,
    UsageError,
    completed,
    parse_count,
    require_training,
)
from advisor.datasets import InputSpec
from advisor.engine._compress.file_kinds import Classifiers, Detectors, map_file_kinds
from advisor.engine._compress.image_choice import CompressionImages, choose_file_images
from advisor.engine._compress.samples import SampleParts, read_samples
from advisor.engine._file_input import spec_of_file
from advisor.engine._question.values import Question
from advisor.measurement import Accelerator
from advisor.store import ensure_output_dir
from advisor.tflite import (
    Metadata,
    read,
    split_postprocess,
    to_float32,
    with_fixed_batch,
)

OR_SAMPLES = (
    "for a model of other inputs or outputs, give samples of its inputs with --samples inputs.npz"
)


@dataclass(frozen=True)
class CompressionQuestion:
    """A search's question, and what is known of the only file that it is about.

    Attributes:
        model: the float file: that of the user, or a copy in ``folder`` with its batch fixed and
            its weights widened.
        recipes: float32 first, then those asked for.
        spec: how it reads images; None with samples.
        metadata: its labels and licence, written into every file; None if it has no labels.
        samples: samples of its inputs, which stand in for images; None for images.
        learn_s: time that a recipe that scores or trains may take; it then returns the best result
            so far.
        stem: of the names of the files.
    """

    question: Question
    model: Path
    recipes: tuple[Recipe, ...]
    folder: Path
    spec: InputSpec | None = None
    metadata: Metadata | None = None
    images: CompressionImages = field(default_factory=CompressionImages)
    samples: SampleParts | None = None
    accelerator: str = "xnnpack"
    learn_s: float = 600.0
    stem: str = ""

    @property
    def kind(self) -> Classifiers | Detectors:
        """The kind of files of the task."""
        return map_file_kinds()[self.question.task]

    def path_of(self, name: str) -> Path:
        """Return where a recipe's file goes;
        a float file that recipes can start from is not copied.
        """
        if name == FLOAT:
            return self.model
        return self.folder / f"{self.stem or self.model.stem}-{name}.tflite"


def prepare_compression(
    model: Path,
    recipes: Sequence[str],
    *,
    judged_only: bool = False,
    **stated: Unpack[CompressKeywords],
) -> CompressionQuestion:
    """Check the arguments and read the images or samples; create the output folder.

    If the file has an open batch or float16 weights, the float file that recipes start from is
    written there, too. With ``judged_only`` there are no recipes, no folder is created, and the
    file may be quantized.

    Raises:
        UsageError: the file is damaged or no recipe applies to it, a recipe is unknown, images
            cannot be used, the normalisation is not known, a limit needs labels, or output files
            exist already.
    """
    # Everything that can be wrong is refused before the folder is created:
    # the order below is from cheap to expensive.
    options = completed(CompressKeywords, stated)
    forms = () if judged_only else _find_recipes(recipes)
    Accelerator.find(options["accelerator"])
    graph = read(model)
    data = model.read_bytes()
    float_file = data
    if not judged_only:
        float_file = _make_float(data, model.name, options["requantize"])
    if options["max_drop_points"] is not None and options["data"] is None:
        raise UsageError(
            "--max-drop limits the loss of accuracy, which needs labelled images",
            "give them with --data",
        )
    task = _choose_task(model, task_of(graph), options, judged_only)
    question = Question(
        task,
        None if options["data"] is None else Path(options["data"]),
        limits=Limits(max_drop_points=options["max_drop_points"]),
        compressions=tuple(form.name for form in forms),
        seed=parse_count("seed", options["seed"]),
    )
    asked = CompressionQuestion(
        question,
        model,
        (recipe(FLOAT), *forms),
        Path(options["to"] or f"{model.stem}-forms"),
        accelerator=options["accelerator"],
        learn_s=options["learn_s"],
    )
    if options["samples"] is not None:
        asked = _with_samples(asked, Path(options["samples"]), float_file, options)
    else:
        asked = _with_images(asked, data, options, judged_only)
    if judged_only:
        return asked
    return _prepare_folder(asked, data, float_file, options["force"])


def _find_recipes(names: Sequence[str]) -> tuple[Recipe, ...]:
    """Return the recipes of some names, each once and without float32, the file itself."""
    recipes = tuple(recipe(name) for name in dict.fromkeys(names) if name != FLOAT)
    if not recipes:
        raise UsageError(
            "--recipe names only float32, which is the file itself",
            "for example --recipe int8,rounded",
        )
    for form in recipes:
        if form.needs >= Needs.TRAINING:
            require_training(f"--recipe {form.name}")
    return recipes


def _choose_task(model: Path, task: str, options: CompressKeywords, judged_only: bool) -> str:
    """Return the task by which a file is judged, which is its own if forms can be compared by it.

    UsageError: only its accuracy is asked, which is that of another task.
    """
    if task in map_file_kinds():
        return task
    if judged_only:
        raise UsageError(
            f"{model.name} is a file for {task}, whose accuracy is measured by a search alone",
            f"advisor search --task {task} --data {options['data']} --candidates {model.stem}",
        )
    # Files of other tasks are compressed as rows of scores.
    return DEFAULT_TASK


def _with_samples(
    asked: CompressionQuestion, samples: Path, float_file: bytes, options: CompressKeywords
) -> CompressionQuestion:
    """Return the question of a file that takes any inputs, with samples of them."""
    name = asked.model.name
    others = {key: options[key] for key in ("calibration", "data", "mean", "std")}
    for option, value in others.items():
        if value is not None:
            raise UsageError(
                f"--samples and --{option} cannot be combined",
                "samples are the model's inputs as they are",
            )
    if not asked.question.of_task.probabilities:
        raise UsageError(
            f"--samples: {name} is a detector, and boxes have no SNR",
            "give images with --calibration",
        )
    parts = read_samples(samples, read(float_file, name), asked.question.seed)
    sources = CompressionImages(
        calibration_source=parts.calibration_source, scored_source=parts.scored_source
    )
    return replace(asked, samples=parts, images=sources)


def _with_images(
    asked: CompressionQuestion, data: bytes, options: CompressKeywords, judged_only: bool
) -> CompressionQuestion:
    """Return the question of a file that takes images, with these;
    UsageError if file, labels and images do not fit.
    """
    model = asked.model
    graph = read(asked.model)
    folder = options["calibration"]
    metadata = Metadata.read(data, model.name)
    try:
        spec = spec_of_file(model.name, graph, metadata, options["mean"], options["std"])
        classes = asked.kind.classes(data, graph, model.name)
    except UsageError as error:
        # Samples are a way out for compressing only: the accuracy of a file alone needs images.
        if judged_only:
            raise
        raise UsageError(error.message, f"{error.hint}; {OR_SAMPLES}") from None
    labels = metadata.labels if metadata else ()
    if labels and len(labels) != classes:
        raise UsageError(
            f"{model.name} has {len(labels)} labels and {classes} classes", "correct its metadata"
        )
    # Without labels, the metadata of a file says nothing that its forms could carry on.
    described = None
    if metadata and labels:
        described = replace(metadata, mean=spec.mean, std=spec.std)
    calibration = None if folder is None else Path(folder)
    images = choose_file_images(asked.question, asked.recipes, spec, labels, classes, calibration)
    return replace(asked, spec=spec, metadata=described, images=images)


def _prepare_folder(
    asked: CompressionQuestion, data: bytes, float_file: bytes, force: bool
) -> CompressionQuestion:
    """Create the folder, and write the float file that recipes start from if it is not the
    user's own.
    """
    model = asked.model
    folder = asked.folder
    copy = folder / f"{model.stem}-{FLOAT}.tflite"
    is_other = float_file != data
    names = [asked.path_of(form.name).name for form in asked.recipes[1:]]
    if is_other:
        names.append(copy.name)
    ensure_output_dir(folder, names, force)
    if not is_other:
        return asked
    if asked.metadata:
        float_file = asked.metadata.write_into(float_file)
    copy.write_bytes(float_file)
    return replace(asked, model=copy, stem=model.stem)


def _make_float(model: bytes, name: str, requantize: bool) -> bytes:
    """Return the float file that recipes start from:
    with a batch of one image, and its weights in float32.

    A quantized file is taken only if it is to be quantized again.
    """
    try:
        float_file = to_float32(with_fixed_batch(model, name), name, quantized=requantize)
        network, _ = split_postprocess(float_file, name)
        require_float(network, "compress", any_graph=True)
    except (UnsupportedRecipe, StageError) as error:
        reason = error.message.removeprefix("compress does not apply: ")
        raise UsageError(
            f"{name} cannot be compressed: {reason}",
            error.hint or "give the float32 file that it was made from",
        ) from None
    return float_file
