"""Find likely wrong labels and cropped copies among images, by features of a card.

``advisor data check`` does it for a set of images (``LabelChecker``), and a search for the images
of its question when it has its answer (``label_stage``). Both share one stage, whose version is
part of the key of the cache: another result of ``find_faults`` needs another version.
``find_faults`` runs in a child process.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from advisor.catalog import Card, Catalogue, fetch_weights, listing
from advisor.core import StageError, parse, require_training
from advisor.datasets import Dataset, Grouping, Pair, Split, number_linked_groups
from advisor.engine._execution import Machine
from advisor.engine._pipeline import cost
from advisor.engine._pipeline.images import Images, Part, Role
from advisor.engine._pipeline.materials import Materials, list_versions
from advisor.engine._pipeline.resources import Pool
from advisor.engine._pipeline.stage import Folders, Inputs, Job, Results, Scope, Stage, StageName
from advisor.engine._pipeline.stages.backbone import feature_stages
from advisor.engine._pipeline.walker import Walker, Workers, run_coroutine
from advisor.engine._question import Question
from advisor.engine._space.question_images import Say
from advisor.isolation import ChildPool, Scratch, usable_cores
from advisor.measurement import host
from advisor.store import ArtifactCache, FetchOptions, sha256_json
from advisor.training import LANDMARKS, Suspect

RESULT = "judgement.json"

CHECK_SEED = 0
"""Seed of the stages, and of the landmarks of a large set."""

PREFERRED = ("efficientnet_lite0_224", "mobilenet_v2_1.0_224", "mobilenet_v1_1.0_224")
"""Cards with good features for their cost.
The first whose weights are available is used, else the first is fetched.
"""

FEWEST = 5
"""Labels of classes with fewer images are not checked: there is too little to learn them from."""

Faults = tuple[tuple[Suspect, ...], tuple[Pair, ...]]
"""Likely wrong labels and cropped copies."""

QUESTION = Question(seed=CHECK_SEED)
"""Question by which the check of labels builds its stages."""


@dataclass(frozen=True)
class LabelCheck:
    """The result of a check of labels."""

    card: str = ""  # the card whose features checked them; empty for none
    suspects: tuple[Suspect, ...] = ()  # likely wrong labels, the most likely first
    copies: tuple[Pair, ...] = ()  # cropped copies


@dataclass(frozen=True)
class LabelChecker:
    """Checks the labels of data sets by features of a card,
    empty for the best one that is available.

    At most ``landmarks`` images span the kernel of the classifier.
    """

    card: str = ""
    catalogs: tuple[Path, ...] = ()
    offline: bool = False
    mirror: str = ""
    landmarks: int = LANDMARKS
    cache_size: int | None = None  # limit of the cache in bytes; None for the usual

    def check(self, dataset: Dataset, pairs: Sequence[Pair], say: Say) -> LabelCheck:
        """Check a data set, of which ``pairs`` are near duplicates.
        Features and result are cached.

        StageError: fewer than two classes have enough images, or an image was removed meanwhile.
        """
        options = FetchOptions(offline=self.offline, mirror=self.mirror or None)
        catalogue = Catalogue.load(self.catalogs)
        names = (self.card,) if self.card else PREFERRED
        cards = [catalogue.card(name) for name in names]
        card = next((card for card in cards if listing.is_here(card, options)), cards[0])
        # The light install has no TensorFlow: say so before weights are fetched.
        if card.needs_converter:
            require_training(
                f"the search for wrong labels by {card.name}, which has no graph file,"
            )
        groups = number_linked_groups(dataset, pairs)
        # A check has no hold-out: every image may be wrong,
        # so all of them are in the part to learn from.
        split = Split(tuple(range(len(dataset.images))), (), (), CHECK_SEED)
        images = Images(dataset, split, groups=groups)
        stage = label_stage(card, images.part(Role.LEARNT), self.landmarks)
        say(f"fetching weights of {card.name}")
        weights = fetch_weights(card, options)
        with ArtifactCache.open_limited(self.cache_size) as cache:
            materials = Materials(cache, images, {card.name: weights}, host.describe(), QUESTION)
            return _run_stage(stage, card, materials, say)


def _run_stage(stage: Stage[Faults], card: Card, materials: Materials, say: Say) -> LabelCheck:
    """Run the stage and those that it needs, or look them up in the cache."""
    with (
        Scratch() as folder,
        ChildPool(folder / "log.txt") as heavy,
        ChildPool(folder / "log.txt") as light,
    ):
        workers = Workers(Machine(usable_cores()), {Pool.HEAVY: heavy, Pool.LIGHT: light})
        walker = Walker(materials, workers, lambda event: say(event.stage.subject))
        suspects, copies = run_coroutine(walker.run(stage))
        return LabelCheck(card.name, suspects, copies)


def label_stage(card: Card, part: Part, landmarks: int = LANDMARKS) -> Stage[Faults]:
    """Return the stage that finds likely wrong labels and cropped copies among the images to
    learn from.

    ``part`` are these images, and the card's features of them tell. StageError:
    fewer than two classes have enough images.
    """
    counts = Counter(part.labels)
    checked = [row for row, label in enumerate(part.labels) if counts[label] >= FEWEST]
    if len({part.labels[row] for row in checked}) < 2:
        raise StageError(f"labels are checked if two classes have at least {FEWEST} images each")
    features = feature_stages(card, Role.LEARNT, len(part.paths))
    groups = Grouping(tuple(part.groups)).members
    together = [group for group in groups if len(group) > 1]

    def inputs(materials: Materials, results: Results) -> Inputs:
        return {
            "features": features.key(materials, results),
            "labels": sha256_json([part.labels, together]),
            "landmarks": landmarks,
            **list_versions("scipy", "numpy", "pillow"),
        }

    def job(_materials: Materials, results: Results, folders: Folders) -> Job:
        files = features.files(results)
        out = folders.out / RESULT
        return partial(
            find_faults, files, part.labels, checked, together, part.paths, landmarks, out
        )

    return Stage(
        name=StageName.LABELS,
        scope=Scope(card.name),
        version="6",
        doing="judging labels with",
        after=features.stages,
        inputs=inputs,
        job=job,
        read=lambda folder: read_faults(folder / RESULT),
        cost_s=cost.labels_s(len(part.paths), landmarks),
    )


def find_faults(
    parts: Sequence[Path],
    labels: Sequence[int],
    checked: Sequence[int],
    together: Sequence[Sequence[int]],
    paths: Sequence[Path],
    landmarks: int,
    path: Path,
) -> None:
    """Find the likely wrong labels and the cropped copies of a data set,
    and write them to ``path``.

    ``parts`` are ``.npy`` files of its features, in order. Only labels of ``checked`` images are
    checked. Images of one group of ``together`` show the same or belong together.
    """
    from advisor.datasets import Pair, find_cropped_copies
    from advisor.training import Suspect, join_parts

    features = join_parts(parts)
    copies = find_cropped_copies(features, paths)
    # A group becomes a chain of pairs:
    # `Pair.group_images` joins what is connected, and a chain needs the fewest pairs.
    chained = []
    for group in together:
        for first, second in pairwise(group):
            chained.append(Pair(first, second, 1.0))
    alike = Pair.group_images([*copies, *chained], len(labels))
    suspects = Suspect.find_all(features, labels, checked, alike, CHECK_SEED, landmarks)
    content = {"suspects": list(map(asdict, suspects)), "copies": list(map(asdict, copies))}
    path.write_text(json.dumps(content), encoding="utf-8")


def read_faults(path: Path) -> tuple[tuple[Suspect, ...], tuple[Pair, ...]]:
    """Return what :func:`find_faults` wrote;
    KeyError, OSError, TypeError or ValueError if it is missing or damaged.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    suspects = parse(tuple[Suspect, ...], content["suspects"])
    copies = parse(tuple[Pair, ...], content["copies"])
    return suspects, copies
