"""Check images for a task, and find wrong labels and cropped copies by features of a network."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from advisor.catalog.cards import Card
from advisor.catalog.catalogue import load_catalogue
from advisor.catalog.listing import is_here
from advisor.catalog.weights.fetching import fetch
from advisor.core.codec import parse
from advisor.core.errors import StageError
from advisor.core.names import require_known
from advisor.core.tasks import DEFAULT_TASK, TASKS
from advisor.datasets.checks.repeated import kept_together
from advisor.datasets.dataset import Dataset
from advisor.datasets.look_alikes import Pair
from advisor.datasets.split import Split
from advisor.downloads.files import FetchOptions, WeightsFile
from advisor.engine.data_check.result import DataCheck, Say
from advisor.engine.execution import Machine
from advisor.engine.pipeline.materials import Images, Materials, Role, versions
from advisor.engine.pipeline.stage import Folders, Inputs, Job, Pool, Results, Scope, Stage, StageEvent, StageName
from advisor.engine.pipeline.stages.backbone import features
from advisor.engine.pipeline.walker import Walker, Workers, run_coroutine
from advisor.engine.question import Question
from advisor.isolation import ChildPool, Scratch
from advisor.isolation.resources import usable_cores
from advisor.measurement import host
from advisor.store import ArtifactCache
from advisor.store.files import sha256_json
from advisor.training.labels import LANDMARKS, Suspect

RESULT = "judgement.json"

SEED = 0
"""Seed of the stages, and of the landmarks of a large set."""


def find_faults(
    parts: Sequence[Path],
    labels: Sequence[int],
    checked: Sequence[int],
    together: Sequence[Sequence[int]],
    paths: Sequence[Path],
    landmarks: int,
    path: Path,
) -> None:
    """Find the likely wrong labels and the cropped copies of a data set, and write them to ``path``.

    Args:
        parts: ``.npy`` files of its features, in order.
        labels: the label of each image.
        checked: indices of the images whose labels are checked.
        together: groups of indices of images that show the same or belong together.
        paths: the images.
        landmarks: most landmarks.
        path: JSON file to write.
    """
    from advisor.datasets.checks.repeated import cropped_copies
    from advisor.datasets.look_alikes import groups
    from advisor.training.features import joined

    features = joined(parts)
    copies = cropped_copies(features, paths)
    chained = [Pair(first, second, 1.0) for group in together for first, second in pairwise(group)]
    alike = groups([*copies, *chained], len(labels))
    suspects = _suspects(features, labels, checked, alike, landmarks)
    content = {"suspects": [asdict(one) for one in suspects], "copies": [asdict(pair) for pair in copies]}
    path.write_text(json.dumps(content), encoding="utf-8")


def read_faults(path: Path) -> tuple[tuple[Suspect, ...], tuple[Pair, ...]]:
    """Return what :func:`find_faults` wrote.

    Raises:
        KeyError, OSError, TypeError, ValueError: the file is missing or damaged.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    return parse(tuple[Suspect, ...], content["suspects"]), parse(tuple[Pair, ...], content["copies"])


def _suspects(
    features: object,
    labels: Sequence[int],
    checked: Sequence[int],
    alike: Sequence[Sequence[int]],
    landmarks: int,
) -> list[Suspect]:
    """Check some of the images. Their labels are renumbered without gaps, and the results are translated back."""
    import numpy as np

    from advisor.training.labels import left_out, suspects

    array = np.asarray(features)
    names, renumbered = np.unique([labels[index] for index in checked], return_inverse=True)
    position = {index: number for number, index in enumerate(checked)}
    groups = [[position[index] for index in group if index in position] for group in alike]
    together = [group for group in groups if len(group) > 1]
    chosen = array if len(checked) == len(array) else array[np.asarray(checked)]
    probabilities = left_out(chosen, renumbered.tolist(), together, SEED, landmarks)
    return [
        Suspect(checked[one.index], int(names[one.suggested]), one.given, one.better)
        for one in suspects(renumbered.tolist(), probabilities)
    ]


PREFERRED = ("efficientnet_lite0_224", "mobilenet_v2_1.0_224", "mobilenet_v1_1.0_224")
"""Cards with good features for their cost. The first whose weights are available is used, else the first is fetched."""

FEWEST = 5
"""Labels of classes with fewer images are not checked: there is too little to learn them from."""

Faults = tuple[tuple[Suspect, ...], tuple[Pair, ...]]
"""Likely wrong labels and cropped copies."""


@dataclass(frozen=True)
class LabelCheck:
    """The result of a check of the labels.

    Attributes:
        card: name of the card whose features were used, empty where the labels were not checked.
        suspects: images whose labels are likely wrong, the most likely first, by index into the data set.
        copies: pairs of images of which one is cut out of the other.
    """

    card: str = ""
    suspects: tuple[Suspect, ...] = ()
    copies: tuple[Pair, ...] = ()


@dataclass(frozen=True)
class LabelChecker:
    """Checks the labels of data sets.

    Attributes:
        card: name of the model card; empty for the best one that is available.
        catalogs: the user's own catalogue files.
        offline: never open a connection.
        mirror: folder or address of weights that is tried first.
        landmarks: most images that span the kernel of the classifier.
    """

    card: str = ""
    catalogs: tuple[Path, ...] = ()
    offline: bool = False
    mirror: str = ""
    landmarks: int = LANDMARKS

    def check(self, dataset: Dataset, pairs: Sequence[Pair], say: Callable[[str], None]) -> LabelCheck:
        """Check a data set. Features and result are cached.

        Args:
            dataset: the images and their labels.
            pairs: near duplicates.
            say: called with a line about each step.

        Raises:
            UsageError: an unknown card.
            WeightsError: its weights are not available.
            StageError: fewer than two classes have enough images, or an image was removed meanwhile.
        """
        options = FetchOptions(offline=self.offline, mirror=self.mirror or None)
        card = self._chosen(options)
        checked = _checked(dataset)
        say(f"fetching weights of {card.name}")
        weights = fetch(card, options)
        return _run(label_stage(card, dataset, checked, pairs, self.landmarks), card, weights, dataset, say)

    def _chosen(self, options: FetchOptions) -> Card:
        catalogue = load_catalogue(self.catalogs)
        if self.card:
            return catalogue.card(self.card)
        cards = [catalogue.card(name) for name in PREFERRED]
        return next((card for card in cards if is_here(card, options)), cards[0])


def _checked(dataset: Dataset) -> list[int]:
    """Return the indices of the images whose classes are large enough."""
    large = {label for label, count in enumerate(dataset.counts) if count >= FEWEST}
    if len(large) < 2:
        raise StageError(f"labels are checked if two classes have at least {FEWEST} images each")
    return [index for index, image in enumerate(dataset.images) if image.label in large]


def _run(
    stage: Stage[Faults], card: Card, weights: WeightsFile, dataset: Dataset, say: Callable[[str], None]
) -> LabelCheck:
    """Run the stage and those that it needs, or look them up in the cache."""
    everything = tuple(range(len(dataset.images)))
    images = Images(dataset, Split(everything, (), (), SEED))
    question = Question(seed=SEED)
    materials = Materials(ArtifactCache(), images, {card.name: weights}, host.describe(), question)

    def listen(event: StageEvent) -> None:
        say(event.stage.subject)

    with Scratch() as folder:
        log = folder / "log.txt"
        with ChildPool(log) as heavy, ChildPool(log) as light:
            workers = Workers(Machine(usable_cores()), {Pool.HEAVY: heavy, Pool.LIGHT: light})
            suspects, copies = run_coroutine(Walker(materials, workers, listen).run(stage))
    return LabelCheck(card.name, suspects, copies)


def label_stage(
    card: Card, dataset: Dataset, checked: Sequence[int], pairs: Sequence[Pair], landmarks: int
) -> Stage[Faults]:
    """Return the stage that finds likely wrong labels and cropped copies by the card's features of all images.

    Args:
        card: the model card.
        dataset: the images.
        checked: indices of the images whose labels are checked.
        pairs: near duplicates.
        landmarks: images that span the kernel of the classifier.
    """
    read = features(card, Role.TRAIN, len(dataset.images))
    labels = [image.label for image in dataset.images]
    together = kept_together(dataset, pairs)

    def inputs(materials: Materials, results: Results) -> Inputs:
        return {
            "features": read.key(materials, results),
            "labels": sha256_json([labels, [list(group) for group in together]]),
            "landmarks": landmarks,
            **versions("cleanlab", "scipy", "numpy", "pillow"),
        }

    def job(materials: Materials, results: Results, folders: Folders) -> Job:
        paths, out = materials.part(Role.TRAIN).paths, folders.out / RESULT
        return partial(find_faults, read.files(results), labels, checked, together, paths, landmarks, out)

    return Stage(
        StageName.LABELS, Scope(card.name), "5", "judging labels with", read.stages, inputs, job,
        lambda folder: read_faults(folder / RESULT),
    )  # fmt: skip


def check_data(
    path: Path,
    checker: LabelChecker | None,
    say: Say = lambda _text: None,
    task: str = DEFAULT_TASK,
) -> DataCheck:
    """Check a data set in any layout of its task; it is not changed.

    Args:
        path: a folder or a file.
        checker: finds wrong labels and crops by a network's features; None to look for neither.
        say: called with a line about each step.
        task: a name in :data:`advisor.core.tasks.TASKS`.

    Raises:
        UsageError: an unknown task, the path does not exist or cannot be read, or the card is unknown.
    """
    return TASKS[require_known("--task", task, tuple(TASKS))].check(path, checker, say)
