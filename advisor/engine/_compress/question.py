"""Check the arguments of ``advisor compress`` and choose its images, before any work starts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from advisor.catalog import task_of
from advisor.compression import (
    CALIBRATION_IMAGES,
    FEWEST_IMAGES,
    Needs,
    Recipe,
    TrainingImages,
    choose_images,
    draw_paths,
    find_images,
    recipe,
    require_float,
    spec_of_file,
)
from advisor.core import (
    DEFAULT_TASK,
    FLOAT,
    AmbiguousInput,
    CompressKeywords,
    Limits,
    StageError,
    UnsupportedRecipe,
    UsageError,
    completed,
    parse_count,
    require_training,
)
from advisor.datasets import InputSpec, class_order, split_halves
from advisor.engine._compress.results import Classifiers, Detectors, map_file_kinds
from advisor.engine._compress.samples import SampleParts, read_samples
from advisor.engine._pipeline.images import Images, Part, Role
from advisor.engine._question.values import Question
from advisor.engine._space.question_images import read_images
from advisor.engine._space.resolved import recipe_applies
from advisor.measurement import find_accelerator, true_boxes
from advisor.store import ensure_output_dir
from advisor.tflite import (
    Metadata,
    read,
    read_metadata,
    split_postprocess,
    to_float32,
    with_fixed_batch,
    write_metadata,
)

SCORED = 200
"""Unlabelled images to count agreement with float on, at most."""

PHOTOGRAPHS = "bundled everyday photographs; give your own images with --calibration"

OR_SAMPLES = (
    "for a model of other inputs or outputs, give samples of its inputs with --samples inputs.npz"
)


@dataclass(frozen=True)
class CompressionImages:
    """The images of the user's folders, by their purpose, and in words where they are from;
    none for the bundled photographs.

    Attributes:
        labels: the truth of each scored image, in the order of the model's classes: its class, or
            its boxes; empty if it is not known.
        training: for recipes that score or train; None without labelled images.
    """

    calibration: tuple[Path, ...] = ()
    scored: tuple[Path, ...] = ()
    calibration_source: str = PHOTOGRAPHS
    scored_source: str = PHOTOGRAPHS
    labels: tuple[Any, ...] = ()
    training: TrainingImages | None = None


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
    images: CompressionImages = CompressionImages()
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
        return (
            self.model
            if name == FLOAT
            else self.folder / f"{self.stem or self.model.stem}-{name}.tflite"
        )


def ask(
    model: Path,
    recipes: Sequence[str],
    *,
    judged_only: bool = False,
    **given: Unpack[CompressKeywords],
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
    options = completed(CompressKeywords, given)
    chosen = (
        ()
        if judged_only
        else tuple(recipe(name) for name in dict.fromkeys(recipes) if name != FLOAT)
    )
    if not chosen and not judged_only:
        raise UsageError(
            "--recipe names only float32, which is the file itself",
            "for example --recipe int8,rounded",
        )
    training = [one.name for one in chosen if one.needs >= Needs.TRAINING]
    if training:
        require_training(f"--recipe {training[0]}")
    find_accelerator(options["accelerator"])
    graph = read(model)
    data = model.read_bytes()
    plain = data if judged_only else _plain(data, model.name, options["requantize"])
    limit = options["max_drop_points"]
    images = options["data"]
    if limit is not None and images is None:
        raise UsageError(
            "--max-drop limits the loss of accuracy, which needs labelled images",
            "give them with --data",
        )
    names = tuple(one.name for one in chosen)
    limits = Limits(max_drop_points=limit)
    data_folder = None if images is None else Path(images)
    seed = parse_count("seed", options["seed"])
    task = task_of(graph)
    if task not in map_file_kinds():
        if judged_only:
            raise UsageError(
                f"{model.name} is a file for {task}, whose accuracy is measured by a search alone",
                f"advisor search --task {task} --data {options['data']} --candidates {model.stem}",
            )
        # Files of other tasks are compressed as rows of scores.
        task = DEFAULT_TASK
    question = Question(task, data_folder, limits=limits, compressions=names, seed=seed)
    asked = CompressionQuestion(
        question,
        model,
        (recipe(FLOAT), *chosen),
        Path(options["to"] or f"{model.stem}-forms"),
        accelerator=options["accelerator"],
        learn_s=options["learn_s"],
    )
    if options["samples"] is not None:
        asked = _of_samples(asked, Path(options["samples"]), plain, options)
    else:
        asked = _of_images(asked, data, options, judged_only)
    return asked if judged_only else _prepare_folder(asked, data, plain, options["force"])


def _of_samples(
    asked: CompressionQuestion, samples: Path, plain: bytes, options: CompressKeywords
) -> CompressionQuestion:
    name = asked.model.name
    others = {key: options[key] for key in ("calibration", "data", "mean", "std")}
    given = next((key for key, value in others.items() if value is not None), None)
    if given:
        raise UsageError(
            f"--samples and --{given} cannot be combined",
            "samples are the model's inputs as they are",
        )
    if not asked.question.of_task.probabilities:
        raise UsageError(
            f"--samples: {name} is a detector, and boxes have no SNR",
            "give images with --calibration",
        )
    parts = read_samples(samples, read(plain, name), asked.question.seed)
    sources = CompressionImages(
        calibration_source=parts.calibration_source, scored_source=parts.scored_source
    )
    return replace(asked, samples=parts, images=sources)


def _of_images(
    asked: CompressionQuestion, data: bytes, options: CompressKeywords, judged_only: bool
) -> CompressionQuestion:
    """Return the question of a file that takes images, with these;
    UsageError if file, labels and images do not fit.
    """
    model = asked.model
    graph = read(asked.model)
    folder = options["calibration"]
    metadata = read_metadata(data, model.name)
    try:
        spec = spec_of_file(model.name, graph, metadata, options["mean"], options["std"])
        classes = asked.kind.classes(data, graph, model.name)
    except UsageError as error:
        # Samples are a way out for compressing only: the accuracy of a file alone needs images.
        raise (
            error if judged_only else UsageError(error.message, f"{error.hint}; {OR_SAMPLES}")
        ) from None
    labels = metadata.labels if metadata else ()
    if labels and len(labels) != classes:
        raise UsageError(
            f"{model.name} has {len(labels)} labels and {classes} classes", "correct its metadata"
        )
    described = replace(metadata, mean=spec.mean, std=spec.std) if metadata and labels else None
    asked = replace(asked, spec=spec, metadata=described)
    return replace(
        asked, images=_images_for(asked, None if folder is None else Path(folder), spec, classes)
    )


def _images_for(
    asked: CompressionQuestion, calibration: Path | None, spec: InputSpec, classes: int
) -> CompressionImages:
    """Read the user's folders, or none.
    The model has ``classes`` classes, and the labels of its metadata if any.

    With both folders and no recipe that uses labels, all labelled images score the files.
    Otherwise their hold-out scores them, split off as in a search. A model that a search exported
    was trained on everything but the hold-out. A recipe that chooses by labels gets half of the
    hold-out, and the other half scores the files.

    Raises:
        UsageError: a folder is missing or cannot be used, holds too few images, or its classes are
            not the model's.
    """
    question = asked.question
    needs = {one.needs for one in asked.recipes}
    data = question.data
    seed = question.seed
    labelled = question.of_task.labelled
    images = find_images(calibration) if calibration else ()
    learns = any(
        one.needs >= Needs.SCORING and recipe_applies(one, question) for one in asked.recipes
    )
    # Images of the other folder calibrate, and no recipe learns:
    # then no labelled image has to be kept from the scores.
    whole = bool(images) and not learns
    try:
        read = read_images(replace(question, judged_whole=whole), lambda _text: None)
    except AmbiguousInput as error:  # the model says the task, and no option does
        tasks = [reading.meaning for reading in error.readings if "task" in reading.options]
        # Other readings of a folder are for the user to choose;
        # the task is not, as the model has one already.
        if not tasks:
            raise
        hint = f"{', '.join(tasks)}; the model is a classifier: give class folders"
        raise UsageError(error.message, hint) from None
    if read is None:
        return _use_unlabelled(images, calibration, seed) if images else CompressionImages()
    order = class_order(read.classes, asked.metadata.labels if asked.metadata else (), classes)
    # A recipe that chooses by labels would flatter itself on the images that it chose by.
    halves = _for_choosing(read) if labelled and Needs.SCORING in needs and not whole else read
    train = read.part(Role.TRAIN)
    scored = halves.part(Role.HOLDOUT)
    held = len(read.split.holdout)
    judged = f"all {held} images of {data}" if whole else f"the {held} images held out of {data}"
    if len(scored.paths) < held:
        judged = (
            f"{len(scored.paths)} of the {held} images held out of {data}; a recipe used the"
            " others to choose"
        )
    source = f"images of {calibration}" if images else f"training images of {data}"
    # Images with classes are drawn class by class below,
    # so that a rare class takes part in the ranges, too.
    chosen = draw_paths(images or (() if labelled else train.paths), CALIBRATION_IMAGES, seed)
    if not chosen:
        chosen = tuple(
            train.paths[index] for index in choose_images(train.labels, CALIBRATION_IMAGES, seed)
        )
    training = None
    if learns or (labelled and not whole):
        validation = halves.part(Role.VALIDATION)
        learnt = train.labels
        judging = validation.labels
        if labelled:
            learnt = tuple(order[label] for label in learnt)
            judging = tuple(order[label] for label in judging)
        training = TrainingImages(
            train.paths, learnt, classes, spec, seed, validation.paths, judging
        )
    truth = _truth(halves, scored, order)
    return CompressionImages(
        chosen, scored.paths, f"{len(chosen)} {source}", judged, truth, training
    )


def _for_choosing(images: Images) -> Images:
    """Return the images with half of their hold-out as validation part,
    if the hold-out is large enough.
    """
    split = images.split
    together = dict[int, list[int]]()
    for index, group in enumerate(images.groups):
        together.setdefault(group, []).append(index)
    chosen_on, scored = split_halves(
        images.dataset, split.holdout, split.seed, list(together.values())
    )
    return (
        replace(images, split=replace(split, validation=chosen_on, holdout=scored))
        if chosen_on
        else images
    )


def _truth(images: Images, part: Part, order: Sequence[int]) -> tuple[Any, ...]:
    if images.boxes is None:
        return tuple(order[label] for label in part.labels)
    sizes = (images.boxes.sizes[index] for index in part.indices)
    places = dict(enumerate(order))
    objects = zip(part.objects, sizes, strict=True)
    return tuple((true_boxes(rows).relabel_boxes(places), size[::-1]) for rows, size in objects)


def _use_unlabelled(images: tuple[Path, ...], folder: Path | None, seed: int) -> CompressionImages:
    chosen = draw_paths(images, CALIBRATION_IMAGES, seed)
    others = tuple(path for path in images if path not in set(chosen))
    scored = draw_paths(others, SCORED, seed) if len(others) >= 2 * FEWEST_IMAGES else chosen
    new = "that were not calibrated on" if scored is not chosen else "that were calibrated on, too"
    return CompressionImages(
        chosen,
        scored,
        f"{len(chosen)} images of {folder}",
        f"{len(scored)} images of {folder} {new}",
    )


def _prepare_folder(
    asked: CompressionQuestion, data: bytes, plain: bytes, force: bool
) -> CompressionQuestion:
    """Create the folder, and write the float file that recipes start
    from if it is another than the user's.
    """
    model = asked.model
    folder = asked.folder
    copy = folder / f"{model.stem}-{FLOAT}.tflite"
    made = [asked.path_of(one.name).name for one in asked.recipes[1:]]
    names = made if plain == data else [*made, copy.name]
    ensure_output_dir(folder, names, force)
    if plain == data:
        return asked
    content = write_metadata(plain, asked.metadata) if asked.metadata else plain
    copy.write_bytes(content)
    return replace(asked, model=copy, stem=model.stem)


def _plain(given: bytes, name: str, requantize: bool) -> bytes:
    """Return the float file that recipes start from:
    with a batch of one image, and its weights in float32.

    A quantized file is taken only if it is to be quantized again.
    """
    try:
        plain = to_float32(with_fixed_batch(given, name), name, quantized=requantize)
        raw, _ = split_postprocess(plain, name)
        require_float(raw, "compress", any_graph=True)
    except (UnsupportedRecipe, StageError) as error:
        reason = error.message.removeprefix("compress does not apply: ")
        raise UsageError(f"{name} cannot be compressed: {reason}", error.hint) from None
    return plain
