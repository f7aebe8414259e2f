"""Stages from a card to its backbone, and from the backbone to the features of images.

Every variant of a card begins with them, so they run once for all of its variants. The words in
the keys ("trunk", "view", "pictures") are older than the names in the code: they stay, because
another word makes every search compute its features again.
"""

from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache, partial
from itertools import pairwise
from pathlib import Path

from advisor.catalog import CONVERT_VERSION, Card, convert as convert_card, read_published_labels
from advisor.core import UnsupportedRecipe, UsageError, recipe_of
from advisor.datasets import CAPTURE_VERSION, class_order
from advisor.engine._pipeline import cost
from advisor.engine._pipeline.images import Images, Part, Role
from advisor.engine._pipeline.materials import (
    Artefact,
    FloatModel,
    Materials,
    Workload,
    input_spec,
    list_versions,
    read_result,
)
from advisor.engine._pipeline.resources import Pool, Resources
from advisor.engine._pipeline.stage import Folders, Inputs, Job, Results, Scope, Stage, StageName
from advisor.engine._pipeline.stages import jobs
from advisor.isolation import CallLimits, PoolKind
from advisor.measurement import least_cpu_ms
from advisor.store import ROWS, add_block, sha256_json
from advisor.tflite import FEATURES, LEVELS_VERSION
from advisor.training import AS_IT_IS, CaptureAugmentation

PROBABILITIES = "probabilities"

# Feature sets that are remembered: the stages of all variants of a card share a few.
MOST_FEATURE_SETS = 1024

CONVERT_LIMITS = CallLimits(seconds=600, memory_bytes=3_000_000_000)
BYTES_A_VALUE = {PoolKind.HEAVY: 64, PoolKind.LIGHT: 32}
"""Extra memory that a conversion may take for each value of the model: TensorFlow's converter
holds the values about sixteen times, at four bytes each (1.6 GB for the 102 MB of ResNet-50).
Filling a graph file holds them eight times.
"""

NO_FEATURES = (
    "the file does not end in one linear layer, so it cannot get a head of your classes; use it"
    " without --data"
)


def identity(materials: Materials, card: Card) -> dict[str, object]:
    """Return the facts of the card's graph and weights for the key of a stage."""
    weights = materials.weights[card.name]
    return {
        "graph": [card.architecture, card.keywords, card.input_size, card.classes],
        "preprocessing": asdict(card.preprocessing),
        "weights": weights.sha256 if weights else "fixed-seed random",
        "port": weights.port if weights else "",
    }


# Every stage of a card comes after this one, so a plan asks for it thousands of times.
@cache
def convert_stage(card: Card) -> Stage[FloatModel]:
    """Make the card's float file with the outputs ``probabilities`` and ``features``:
    from its graph file, or by Keras.

    The first needs no TensorFlow, so its version is no part of the key.
    """

    def inputs(materials: Materials, _results: Results) -> Inputs:
        facts = identity(materials, card)
        if card.needs_converter:
            return {**facts, **list_versions("tensorflow", "keras", "ai-edge-litert")}
        graph = {"graph file": card.filled_graph.sha256} if card.filled_graph else {}
        return {**facts, **graph, **list_versions("ai-edge-litert", "numpy")}

    return Stage(
        name=StageName.CONVERT,
        scope=Scope(card.name),
        version=CONVERT_VERSION.rpartition("-")[2],
        doing="converting",
        after=(),
        inputs=inputs,
        job=lambda materials, _, folders: partial(
            convert_card, card, materials.weights[card.name], folders.model
        ),
        read=FloatModel.within,
        cost_s=cost.CONVERT_S if card.needs_converter else cost.FILL_S,
        resources=convert_resources(card),
    )


def convert_resources(card: Card) -> Resources:
    """Return the place and the limits of the card's conversion: large models need more memory."""
    kind = PoolKind.HEAVY if card.needs_converter else PoolKind.LIGHT
    values_bytes = BYTES_A_VALUE[kind] * card.params
    limits = replace(CONVERT_LIMITS, memory_bytes=CONVERT_LIMITS.memory_bytes + values_bytes)
    return Resources(Pool(kind), kind.expected_bytes + values_bytes, limits)


@cache
def cut_stage(card: Card, output: str = PROBABILITIES) -> Stage[FloatModel]:
    """Write the card's float file with only one of its outputs;
    for ``features``, the backbone with all its levels.

    The backbone is unsupported if a user's file does not end in one linear layer.
    """
    converted = convert_stage(card)

    def inputs(_materials: Materials, results: Results) -> Inputs:
        model = results[converted]
        if output == FEATURES and card.own_file:
            facts = read_result(model.path.parent)
            if not facts.get("features", True):
                raise UnsupportedRecipe(NO_FEATURES)
        return {"master": model.sha256, "output": output, "levels": LEVELS_VERSION}

    return Stage(
        name=StageName.CUT,
        scope=Scope(card.name, detail=output),
        version="2",
        doing="cutting",
        after=(converted,),
        inputs=inputs,
        job=lambda _, results, folders: partial(
            jobs.cut_output, results[converted].path, output, folders.model
        ),
        read=FloatModel.within,
        cost_s=cost.REWRITE_S,
    )


def screen_stage(card: Card) -> Stage[float]:
    """Measure the least CPU time of the card's float backbone at one thread, in ms."""
    source = cut_stage(card, FEATURES)

    def inputs(materials: Materials, results: Results) -> Inputs:
        host = materials.host.fingerprint
        return {
            "backbone": results[source].sha256,
            "host": host,
            **list_versions("ai-edge-litert"),
        }

    return Stage(
        name=StageName.SCREEN,
        scope=Scope(card.name),
        version="1",
        doing="screening",
        after=(source,),
        inputs=inputs,
        job=lambda _, results, __: partial(least_cpu_ms, results[source].path),
        read=lambda folder: float(read_result(folder)),
    )


@dataclass(frozen=True)
class FeatureSet:
    """The features of some images, in parts that are computed in parallel.

    ``source`` makes the backbone; ``parts`` make files of rows (N, F), in the order of the images.
    ``augmentation`` says how a camera changes the images before.
    """

    card: Card
    role: Role
    augmentation: CaptureAugmentation
    source: Stage[FloatModel]
    parts: tuple[Stage[Path], ...]

    @property
    def stages(self) -> tuple[Stage[FloatModel] | Stage[Path], ...]:
        """Stages that :meth:`files` and :meth:`key` need."""
        return (self.source, *self.parts)

    def files(self, results: Results) -> tuple[Path, ...]:
        """Return the files of rows."""
        return tuple(results[part] for part in self.parts)

    def key(self, materials: Materials, results: Results) -> str:
        """Return the hash of everything that the features depend on."""
        part = materials.part(self.role)
        return sha256_json(_list_inputs(self.card, self.augmentation, part, results[self.source]))


@lru_cache(maxsize=MOST_FEATURE_SETS)
def feature_stages(
    card: Card,
    role: Role,
    count: int,
    augmentation: CaptureAugmentation = AS_IT_IS,
    training: str = "",
) -> FeatureSet:
    """Extract the features of ``count`` images, in parts that run side by side.

    Features that this backbone computed before, for any set, are reused. ``training`` is the only
    training that needs them; empty if all trainings of the card do.
    """
    source = cut_stage(card, FEATURES)
    parts = cost.feature_parts(count)
    bounds = [count * part // parts for part in range(parts + 1)]
    seconds = cost.reading_s(card, count) / parts
    features = FeatureSet(card, role, augmentation, source, ())
    stages = []
    for chunk in pairwise(bounds):
        stages.append(_extract_chunk(features, chunk, training, seconds))
    return replace(features, parts=tuple(stages))


def _extract_chunk(
    features: FeatureSet, chunk: tuple[int, int], training: str, seconds: float
) -> Stage[Path]:
    """Return the stage that computes the features of one chunk of the images."""
    card = features.card
    augmentation = features.augmentation
    source = features.source

    def read_part(materials: Materials) -> Part:
        return materials.part(features.role).between(*chunk)

    def inputs(materials: Materials, results: Results) -> Inputs:
        whole = materials.part(features.role)
        return {**_list_inputs(card, augmentation, whole, results[source]), "part": list(chunk)}

    def place_blocks(materials: Materials, results: Results) -> Path:
        shared = sha256_json(_list_image_inputs(card, augmentation, results[source]))
        return materials.cache.root / stage.folder / f"{shared}.blocks"

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        part = read_part(materials)
        return partial(
            jobs.write_features,
            results[source].path,
            part.paths,
            augmentation.names(part.hashes, part.paths),
            input_spec(card),
            augmentation,
            place_blocks(materials, results),
            folders.out,
            augmentation == AS_IT_IS and _writes_maps(card, materials),
        )

    stage: Stage[Path] = Stage(
        name=StageName.FEATURES,
        scope=Scope(
            card.name, training, detail=f"{features.role} {augmentation.captured} {chunk}"
        ),
        version="3",
        doing="reading images with",
        after=(source,),
        inputs=inputs,
        job=job,
        read=lambda folder: folder / ROWS,
        cost_s=seconds,
        reads=read_part,
        when_done=lambda materials, results, folder: add_block(
            place_blocks(materials, results), folder
        ),
    )
    return stage


def _writes_maps(card: Card, materials: Materials) -> bool:
    """Return whether the pass for the features also writes the maps that fine-tuning reads."""
    if card.is_finished:
        return False
    # A time limit makes a pass over the images dear;
    # without one, equal searches shall give equal networks.
    for training in materials.question.trainings:
        limited = materials.budget_training(card.name, training) is not None
        if recipe_of(training).cached and limited:
            return True
    return False


def _list_image_inputs(
    card: Card, augmentation: CaptureAugmentation, source: FloatModel
) -> dict[str, object]:
    """Return everything that an image's features depend on, except the image."""
    inputs: dict[str, object] = {
        "trunk": source.sha256,
        "view": input_spec(card).key,
        **list_versions("ai-edge-litert", "pillow", "numpy"),
    }
    if augmentation != AS_IT_IS:
        inputs |= {"seen": augmentation.key, "conditions": CAPTURE_VERSION}
    return inputs


def _list_inputs(
    card: Card, augmentation: CaptureAugmentation, part: Part, source: FloatModel
) -> dict[str, object]:
    """Return everything that the features of some images depend on."""
    names = augmentation.names(part.hashes, part.paths)
    return {
        **_list_image_inputs(card, augmentation, source),
        "pictures": sha256_json([name.hex() for name in names]),
    }


def take_finished_file(card: Card, scope: Scope, workload: Workload) -> Stage[Artefact]:
    """Take a finished file, if it knows the classes of the images. No byte of it changes."""

    def inputs(materials: Materials, _results: Results) -> Inputs:
        if workload.images:
            require_classes(card, materials.require_images())
        return identity(materials, card)

    return Stage(
        name=StageName.CONVERT,
        scope=scope,
        version="1",
        doing="reading",
        after=(),
        inputs=inputs,
        job=lambda materials, _, folders: partial(
            jobs.copy_finished_file, materials.weights[card.name], folders.model
        ),
        read=Artefact.within,
        cost_s=cost.REWRITE_S,
    )


def require_classes(card: Card, images: Images) -> None:
    """Check that a user's own file knows every class of the images;
    UnsupportedRecipe names the nearest. It may know more.
    """
    labels = read_published_labels(card)
    try:
        class_order(images.classes, labels, len(labels))
    except UsageError as error:
        raise UnsupportedRecipe(f"{error.message}; {error.hint}") from None
