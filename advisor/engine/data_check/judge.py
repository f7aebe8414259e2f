"""What a network that has seen the world thinks of the labels, and which pictures it takes for copies."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from advisor.catalog.cards import Card
from advisor.catalog.catalogue import load_catalogue
from advisor.catalog.listing import is_here
from advisor.catalog.weights import FetchOptions, WeightsFile, fetch
from advisor.core.errors import StageError
from advisor.datasets.checks.repeated import kept_together
from advisor.datasets.dataset import Dataset
from advisor.datasets.duplicates import Pair
from advisor.datasets.split import Split
from advisor.engine.data_check import work
from advisor.engine.execution.machine import Machine
from advisor.engine.pipeline.events import StageEvent
from advisor.engine.pipeline.images import Images, Role
from advisor.engine.pipeline.names import StageName
from advisor.engine.pipeline.stage import Folders, Inputs, Job, Materials, Pool, Results, Scope, Stage, versions
from advisor.engine.pipeline.stages.backbone import features
from advisor.engine.pipeline.walker import Walker, Workers
from advisor.isolation import ChildPool
from advisor.isolation.cores import usable_cores
from advisor.isolation.coroutine import run_coroutine
from advisor.measurement import host
from advisor.store import ArtifactCache
from advisor.store.hashing import sha256_json
from advisor.training.labels.out_of_sample import LANDMARKS
from advisor.training.labels.wrong_labels import Suspect

PREFERRED = ("efficientnet_lite0_224", "mobilenet_v2_1.0_224", "mobilenet_v1_1.0_224")
"""Good features for their price; the first whose weights are here judges, else the first is fetched."""

FEWEST = 5
"""Classes with fewer pictures are not judged: there is too little to learn them from."""

SEED = 0


@dataclass(frozen=True)
class Judgement:
    """What came of it.

    Attributes:
        card: whose features.
        suspects: pictures whose labels are likely wrong, the surest first, by index into the data set.
        copies: pairs of which one is cut out of the other.
    """

    card: str
    suspects: tuple[Suspect, ...]
    copies: tuple[Pair, ...]


@dataclass(frozen=True)
class Judge:
    """Judges data sets.

    Attributes:
        card: name of the model card; empty for the best one that is here.
        catalogs: the team's own catalogue files.
        offline: never open a connection.
        mirror: folder or address that holds weights, asked first.
        landmarks: pictures that span the kernel of the classifier that judges; all of a set that has no more.
    """

    card: str = ""
    catalogs: tuple[Path, ...] = ()
    offline: bool = False
    mirror: str = ""
    landmarks: int = LANDMARKS

    def judge(self, dataset: Dataset, pairs: Sequence[Pair], say: Callable[[str], None]) -> Judgement:
        """Judge a data set whose near duplicates are known. Features and judgement are kept for the next time.

        Raises:
            UsageError: an unknown card.
            WeightsError: its weights cannot be had.
            StageError: fewer than two classes with enough pictures, a picture that went meanwhile.
        """
        options = FetchOptions(offline=self.offline, mirror=self.mirror or None)
        card = self._chosen(options)
        judged = _judged(dataset)
        say(f"fetching weights of {card.name}")
        weights = fetch(card, options)
        return _judge(card, weights, dataset, judged, pairs, self.landmarks, say)

    def _chosen(self, options: FetchOptions) -> Card:
        catalogue = load_catalogue(self.catalogs)
        if self.card:
            return catalogue.card(self.card)
        cards = [catalogue.card(name) for name in PREFERRED]
        return next((card for card in cards if is_here(card, options)), cards[0])


def _judged(dataset: Dataset) -> list[int]:
    """Return the indices of the pictures whose classes are large enough."""
    large = {label for label, count in enumerate(dataset.counts) if count >= FEWEST}
    if len(large) < 2:
        raise StageError(f"labels can be judged where two classes have {FEWEST} pictures each")
    return [index for index, image in enumerate(dataset.images) if image.label in large]


def _judge(
    card: Card,
    weights: WeightsFile,
    dataset: Dataset,
    judged: Sequence[int],
    pairs: Sequence[Pair],
    landmarks: int,
    say: Callable[[str], None],
) -> Judgement:
    everything = tuple(range(len(dataset.images)))
    images = Images(dataset, Split(everything, (), (), SEED))
    materials = Materials(ArtifactCache(), images, {card.name: weights}, host.describe(), seed=SEED)
    stage = labels_stage(card, dataset, judged, pairs, landmarks)

    def listen(event: StageEvent) -> None:
        say(event.stage.subject)

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        with ChildPool(log) as heavy, ChildPool(log) as light:
            workers = Workers(Machine(usable_cores()), {Pool.HEAVY: heavy, Pool.LIGHT: light})
            suspects, copies = run_coroutine(Walker(materials, workers, listen).run(stage))
    return Judgement(card.name, suspects, copies)


def labels_stage(
    card: Card, dataset: Dataset, judged: Sequence[int], pairs: Sequence[Pair], landmarks: int
) -> Stage[tuple[tuple[Suspect, ...], tuple[Pair, ...]]]:
    """Find likely wrong labels and cropped copies by the card's features of all images.

    Args:
        card: the model card.
        dataset: the images.
        judged: indices of the images whose labels are judged.
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
        paths, out = materials.require_images().part(Role.TRAIN).paths, folders.out / work.RESULT
        return partial(work.judge, read.files(results), labels, judged, together, paths, SEED, landmarks, out)

    return Stage(
        StageName.LABELS, Scope(card.name), "5", "judging labels with", read.stages, inputs, job,
        lambda folder: work.read(folder / work.RESULT),
    )  # fmt: skip
