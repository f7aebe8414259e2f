"""Finds wrong labels and cropped copies by the features of a network that was trained on ImageNet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from advisor.catalog.cards import Card
from advisor.catalog.catalogue import load_catalogue
from advisor.catalog.listing import is_here
from advisor.catalog.weights.fetching import fetch
from advisor.core.errors import StageError
from advisor.datasets.checks.repeated import kept_together
from advisor.datasets.dataset import Dataset
from advisor.datasets.duplicates import Pair
from advisor.datasets.split import Split
from advisor.downloads.files import FetchOptions, WeightsFile
from advisor.engine.data_check import jobs
from advisor.engine.execution.machine import Machine
from advisor.engine.pipeline.events import StageEvent
from advisor.engine.pipeline.images import Images, Role
from advisor.engine.pipeline.materials import Materials, versions
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import Folders, Inputs, Job, Pool, Results, Scope, Stage
from advisor.engine.pipeline.stages.backbone import features
from advisor.engine.pipeline.walker import Walker, Workers
from advisor.engine.question import Question
from advisor.isolation import ChildPool, Scratch
from advisor.isolation.coroutine import run_coroutine
from advisor.isolation.resources import usable_cores
from advisor.measurement import host
from advisor.store import ArtifactCache
from advisor.store.files import sha256_json
from advisor.training.labels import LANDMARKS, Suspect

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
    images = Images(dataset, Split(everything, (), (), jobs.SEED))
    question = Question(seed=jobs.SEED)
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
        paths, out = materials.part(Role.TRAIN).paths, folders.out / jobs.RESULT
        return partial(jobs.find_faults, read.files(results), labels, checked, together, paths, landmarks, out)

    return Stage(
        StageName.LABELS, Scope(card.name), "5", "judging labels with", read.stages, inputs, job,
        lambda folder: jobs.read_faults(folder / jobs.RESULT),
    )  # fmt: skip
