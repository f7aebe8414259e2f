"""Check images for a task: what is wrong with their files, their labels,
and crops of one image among them.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from advisor.catalog import Card, fetch_weights, is_here, load_catalogue
from advisor.core import (
    DEFAULT_TASK,
    TASKS,
    StageError,
    UsageError,
    parse,
    require_known,
    require_training,
    without_password,
)
from advisor.datasets import (
    Box,
    Dataset,
    Finding,
    Kind,
    MeasureDistribution,
    ObjectSizes,
    Overview,
    Pair,
    Progress,
    Split,
    Survey,
    measure_conditions,
    members_of,
    number_linked_groups,
    require_writable,
)
from advisor.downloads import FetchOptions
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
from advisor.engine._task import find_task
from advisor.isolation import ChildPool, Scratch, usable_cores
from advisor.measurement import host
from advisor.store import limited_cache, sha256_json
from advisor.training import LANDMARKS, Suspect

SCHEMA_VERSION = 1

RESULT = "judgement.json"

CHECK_SEED = 0
"""Seed of the stages, and of the landmarks of a large set."""

PREFERRED = ("efficientnet_lite0_224", "mobilenet_v2_1.0_224", "mobilenet_v1_1.0_224")
"""Cards with good features for their cost.
The first whose weights are available is used, else the first is fetched.
"""

FEWEST = 5
"""Labels of classes with fewer images are not checked: there is too little to learn them from."""

NOT_JUDGED = "they are looked for in image classification only"
"""Reason why wrong labels and crops are not looked for in the other tasks."""

Faults = tuple[tuple[Suspect, ...], tuple[Pair, ...]]
"""Likely wrong labels and cropped copies."""

QUESTION = Question(seed=CHECK_SEED)
"""Question by which the check of labels builds its stages."""


@dataclass(frozen=True)
class Drawing:
    """The boxes of an image, or a colour for each pixel, and its width and height upright."""

    size: tuple[int, int]
    boxes: tuple[Box, ...]
    layer: str = ""  # PNG in base64 to lay over the image


class Content(Protocol):
    """Classes of the images, or boxes in them, as the user's files state them."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Images or boxes of each class."""

    @property
    def summary(self) -> str:
        """The size of the set in a few words."""

    @property
    def sizes(self) -> Sequence[ObjectSizes]:
        """Sizes of the objects at usual inputs; empty without boxes."""

    @property
    def next_command(self) -> str:
        """The command to run on a manifest without the suspects; empty if there is none yet."""

    def label(self, path: Path) -> str:
        """Return what an image shows; empty for an image that was left out."""

    def drawing(self, path: Path) -> Drawing | None:
        """Return the boxes of an image; None if the images have no boxes,
        or the image was left out.
        """

    def to_json(self) -> Mapping[str, Any]:
        """Return the entries of this content in the JSON object of a check."""

    def write(self, path: Path, findings: Sequence[Finding]) -> int:
        """Write a manifest without what the findings leave out; return its number of images."""


@dataclass(frozen=True, eq=False)
class DataCheck:
    """The result of a check.

    ``findings`` are the gravest first. ``judged_by`` is the card whose features checked labels and
    crops, else ``not_judged`` says why none did. ``split`` is that of a search with default
    options, else ``not_split`` says why it would refuse the images.
    """

    data: Path
    survey: Survey
    content: Content
    findings: tuple[Finding, ...]
    conditions: tuple[MeasureDistribution, ...]
    judged_by: str
    not_judged: str = ""
    split: Overview | None = None
    not_split: str = ""

    @property
    def left_out(self) -> frozenset[Path]:
        """The images to leave out of a set without these faults."""
        paths = set[Path]()
        for finding in self.findings:
            paths.update(finding.leave_out)
        return frozenset(paths)

    def write_manifest(self, path: Path) -> int:
        """Write a new CSV manifest without the suspects, with labels in one spelling;
        return its number of images.
        """
        return self.content.write(require_writable(path), self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; paths are relative to the root of the data set."""
        return {
            "schema_version": SCHEMA_VERSION,
            "data": without_password(str(self.data)),
            "fingerprint": self.survey.dataset.fingerprint,
            **self.content.to_json(),
            "judged_by": self.judged_by,
            "not_judged": self.not_judged,
            "split": self.split.to_json() if self.split else None,
            "not_split": self.not_split,
            "findings": list(map(self._finding, self.findings)),
            "conditions": [condition.to_json() for condition in self.conditions],
        }

    def _finding(self, finding: Finding) -> dict[str, Any]:
        shown = self.survey.dataset.show_path
        document = {
            "kind": finding.kind.value,
            "message": finding.message,
            "advice": finding.advice,
            "groups": [list(map(shown, group)) for group in finding.groups],
            "notes": list(finding.notes),
            "leave_out": list(map(shown, finding.leave_out)),
        }
        marked = []
        for boxes in finding.marked:
            marked.append([{"label": box.label, "box": list(box.edges)} for box in boxes])
        return (
            {**document, "boxes": marked, "leave_out_boxes": finding.leave_out_marked}
            if marked
            else document
        )


def gravest_first(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order of their kinds;
    those of a task's own come after unreadable files.
    """
    # A task may find kinds that the list of kinds does not have;
    # 0.5 puts them between the first and the second.
    places: dict[StrEnum, float] = {kind: place for place, kind in enumerate(Kind)}
    return tuple(sorted(findings, key=lambda finding: places.get(finding.kind, 0.5)))


def run_data_check(
    path: Path,
    read: Survey,
    content: Content,
    findings: Sequence[Finding],
    overview: Callable[[int], Overview],
    judged_by: str = "",
    not_judged: str = NOT_JUDGED,
    framing: bool = False,
) -> DataCheck:
    """Return the result of a check.

    ``overview`` returns the split of a search with default options by its seed, or refuses it.
    ``framing``: also show whether the subject is in the middle.
    """
    split = None
    refused = ""
    try:
        split = overview(CHECK_SEED)
    except UsageError as error:
        refused = error.message
    shown = measure_conditions(read, framing)
    return DataCheck(
        path, read, content, gravest_first(findings), shown, judged_by, not_judged, split, refused
    )


def report_progress(say: Say) -> Progress:
    """Return a function that says how many images were listed, and then read."""

    def count(done: int, total: int) -> None:
        if not total:
            say(f"listing images: {done:,}")
        # A line for each image would cost more than reading a small one.
        elif done % 100 == 0 or done == total:
            say(f"reading images: {done:,} of {total:,}")

    return count


@dataclass(frozen=True)
class LabelCheck:
    """The card whose features checked labels, empty for none; suspects, the most likely first;
    cropped copies.
    """

    card: str = ""
    suspects: tuple[Suspect, ...] = ()
    copies: tuple[Pair, ...] = ()


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
        catalogue = load_catalogue(self.catalogs)
        cards = [catalogue.card(name) for name in ((self.card,) if self.card else PREFERRED)]
        card = next((card for card in cards if is_here(card, options)), cards[0])
        # The light install has no TensorFlow: say so before weights are fetched.
        if card.needs_converter:
            require_training(
                f"the search for wrong labels by {card.name}, which has no graph file,"
            )
        groups = number_linked_groups(dataset, pairs)
        # A check has no hold-out: every image may be wrong,
        # so all of them are in the part to learn from.
        images = Images(
            dataset, Split(tuple(range(len(dataset.images))), (), (), CHECK_SEED), groups=groups
        )
        stage = label_stage(card, images.part(Role.LEARNT), self.landmarks)
        say(f"fetching weights of {card.name}")
        weights = fetch_weights(card, options)
        with limited_cache(self.cache_size) as cache:
            return _run(
                stage,
                card,
                Materials(cache, images, {card.name: weights}, host.describe(), QUESTION),
                say,
            )


def _run(stage: Stage[Faults], card: Card, materials: Materials, say: Say) -> LabelCheck:
    """Run the stage and those that it needs, or look them up in the cache."""
    with (
        Scratch() as folder,
        ChildPool(folder / "log.txt") as heavy,
        ChildPool(folder / "log.txt") as light,
    ):
        workers = Workers(Machine(usable_cores()), {Pool.HEAVY: heavy, Pool.LIGHT: light})
        walker = Walker(materials, workers, lambda event: say(event.stage.subject))
        return LabelCheck(card.name, *run_coroutine(walker.run(stage)))


def label_stage(card: Card, part: Part, landmarks: int = LANDMARKS) -> Stage[Faults]:
    """Return the stage that finds likely wrong labels
    and cropped copies among the images to learn from.

    ``part`` are these images, and the card's features of them tell. StageError:
    fewer than two classes have enough images.
    """
    counts = Counter(part.labels)
    checked = [row for row, label in enumerate(part.labels) if counts[label] >= FEWEST]
    if len({part.labels[row] for row in checked}) < 2:
        raise StageError(f"labels are checked if two classes have at least {FEWEST} images each")
    read = feature_stages(card, Role.LEARNT, len(part.paths))
    together = [group for group in members_of(part.groups).values() if len(group) > 1]

    def inputs(materials: Materials, results: Results) -> Inputs:
        return {
            "features": read.key(materials, results),
            "labels": sha256_json([part.labels, together]),
            "landmarks": landmarks,
            **list_versions("scipy", "numpy", "pillow"),
        }

    def job(_materials: Materials, results: Results, folders: Folders) -> Job:
        files = read.files(results)
        out = folders.out / RESULT
        return partial(
            find_faults, files, part.labels, checked, together, part.paths, landmarks, out
        )

    return Stage(
        StageName.LABELS,
        Scope(card.name),
        "6",
        "judging labels with",
        read.stages,
        inputs,
        job,
        lambda folder: read_faults(folder / RESULT),
        cost.labels_s(len(part.paths), landmarks),
    )


def check_data(
    path: Path,
    checker: LabelChecker | None,
    say: Say = lambda _text: None,
    task: str = DEFAULT_TASK,
) -> DataCheck:
    """Check a data set in any layout of its task;
    without ``checker``, neither for wrong labels nor for crops.
    """
    return find_task(require_known("--task", task, tuple(TASKS))).check(path, checker, say)


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
    from advisor.datasets import find_cropped_copies, group_pairs
    from advisor.training import find_suspects, join_parts

    features = join_parts(parts)
    copies = find_cropped_copies(features, paths)
    # A group becomes a chain of pairs:
    # `groups` joins what is connected, and a chain needs the fewest pairs.
    chained = []
    for group in together:
        for first, second in pairwise(group):
            chained.append(Pair(first, second, 1.0))
    alike = group_pairs([*copies, *chained], len(labels))
    suspects = find_suspects(features, labels, checked, alike, CHECK_SEED, landmarks)
    content = {"suspects": list(map(asdict, suspects)), "copies": list(map(asdict, copies))}
    path.write_text(json.dumps(content), encoding="utf-8")


def read_faults(path: Path) -> tuple[tuple[Suspect, ...], tuple[Pair, ...]]:
    """Return what :func:`find_faults` wrote;
    KeyError, OSError, TypeError or ValueError if it is missing or damaged.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    return parse(tuple[Suspect, ...], content["suspects"]), parse(
        tuple[Pair, ...], content["copies"]
    )
