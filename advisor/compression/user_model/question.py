"""Everything that can be wrong with ``advisor compress`` is found here, before anything is spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.compression.input_spec import view_of_file
from advisor.compression.recipes import Recipe, recipe
from advisor.compression.recipes.suitable import require_plain_float
from advisor.compression.user_model.images import Images, read_images
from advisor.core.errors import UnsupportedRecipe, UsageError
from advisor.datasets.images import InputSpec
from advisor.measurement.accelerators.loading import accelerator
from advisor.store.output_dir import ensure_output_dir
from advisor.tflite.metadata import Metadata, read_metadata
from advisor.tflite.model import Model, read

FLOAT = "float32"
ON_CPU = "xnnpack"
LEARN_S = 600.0


@dataclass(frozen=True)
class Question:
    """What to make of which file.

    Attributes:
        model: the float file.
        recipes: float32 first, then those asked for.
        view: how it reads images.
        metadata: what it says of itself, kept in every form; None where it says nothing.
        images: to calibrate and judge on.
        folder: where the forms go.
        max_drop_points: what a form may lose against float; None for no limit.
        seed: of every draw.
        accelerator: whose operators are counted.
        learn_s: how long a recipe that learns may take; it gives the best that it has by then.
    """

    model: Path
    recipes: tuple[Recipe, ...]
    view: InputSpec
    metadata: Metadata | None
    images: Images
    folder: Path
    max_drop_points: float | None
    seed: int
    accelerator: str = ON_CPU
    learn_s: float = LEARN_S

    def path_of(self, name: str) -> Path:
        """Return where a recipe's form goes; the float file stays where it is."""
        return self.model if name == FLOAT else self.folder / f"{self.model.stem}-{name}.tflite"


def ask(
    model: Path,
    recipes: Sequence[str],
    *,
    calibration: Path | None = None,
    data: Path | None = None,
    max_drop_points: float | None = None,
    to: Path | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    seed: int = 0,
    target: str = ON_CPU,
    learn_s: float = LEARN_S,
    force: bool = False,
) -> Question:
    """Check the question; folders are read, nothing is written but the folder for the forms.

    Raises:
        UsageError: the file is damaged or no form can be made of it, a recipe is unknown, images are unfit, nobody
            says how images are normalised, a limit cannot be judged, or files are in the way.
    """
    chosen = _recipes(recipes)
    accelerator(target)
    graph = read(model)
    _require_float(model)
    if max_drop_points is not None and data is None:
        raise UsageError("--max-drop is a loss of accuracy, which needs labelled images", "give them with --data")
    metadata = read_metadata(model.read_bytes(), model.name)
    view = view_of_file(model.name, graph, metadata, mean, std)
    _require_labels(model.name, graph, metadata)
    names = metadata.labels if metadata else ()
    rungs = {one.rung for one in chosen}
    images = read_images(calibration, data, view, names, graph.outputs[0].shape[-1], seed, rungs)
    folder = to or Path(f"{model.stem}-forms")
    question = Question(
        model,
        (recipe(FLOAT), *chosen),
        view,
        _kept(metadata, view),
        images,
        folder,
        max_drop_points,
        seed,
        target,
        learn_s,
    )
    ensure_output_dir(folder, [question.path_of(one.name).name for one in chosen], force)
    return question


def _recipes(names: Sequence[str]) -> tuple[Recipe, ...]:
    chosen = tuple(recipe(name) for name in dict.fromkeys(names) if name != FLOAT)
    if not chosen:
        raise UsageError("--recipe names no form but the float one that is there", "for example --recipe int8,rounded")
    return chosen


def _require_float(model: Path) -> None:
    """Refuse what no recipe applies to, with the reason once and not once a recipe."""
    try:
        require_plain_float(model.read_bytes(), "compress")
    except UnsupportedRecipe as error:
        reason = error.message.removeprefix("compress does not apply: ")
        raise UsageError(f"{model.name} cannot be compressed: {reason}", error.hint) from None


def _require_labels(name: str, graph: Model, metadata: Metadata | None) -> None:
    outputs = graph.outputs
    if len(outputs) != 1 or len(outputs[0].shape) < 2 or outputs[0].elements != outputs[0].shape[-1]:
        shapes = ", ".join("x".join(map(str, tensor.shape)) for tensor in outputs)
        raise UsageError(f"{name} gives {shapes}, not one row of scores", "the output must be 1 x classes")
    if metadata and metadata.labels and len(metadata.labels) != outputs[0].shape[-1]:
        raise UsageError(
            f"{name} has {len(metadata.labels)} labels and {outputs[0].shape[-1]} outputs", "mend its metadata"
        )


def _kept(metadata: Metadata | None, view: InputSpec) -> Metadata | None:
    """Return what goes into every form: as the file has it, normalisation as it is read."""
    from dataclasses import replace

    if metadata is None or not metadata.labels:
        return None
    return replace(metadata, mean=view.mean, std=view.std)
