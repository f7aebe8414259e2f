"""Metrics that the images cannot give are refused before anything is spent."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from advisor.core import UsageError
from advisor.datasets import UNGROUPED, Dataset, Grouping, LabelledImage, Split
from advisor.datasets._dataset import fingerprint
from advisor.datasets._image_groups import Source
from advisor.engine import Images, Role, resolve
from advisor.engine._space.question_images import read_images, require_metrics
from tests.datasets.folders import fill
from tests.engine.pipeline.boxed import boxed_images

EACH = 60
"""Images of each part."""

BOXES = {"task": "object-detection"}
COSTS = "class,a,b\na,0,1\nb,5,0\n"


def images_of(classes: str = "ab", groups: Sequence[str] = (), labels: Sequence[int] = ()) -> Images:
    """Return images in three parts, of the same groups and labels in each."""
    labels = labels or [index % len(classes) for index in range(EACH)]
    files = tuple(
        LabelledImage(
            Path(f"{index}.jpg"), labels[index % EACH], str(index), group=(groups or [""] * EACH)[index % EACH]
        )
        for index in range(3 * EACH)
    )
    dataset = Dataset(Path(), tuple(classes), files, (), fingerprint(classes, files))
    parts = [tuple(range(place * EACH, (place + 1) * EACH)) for place in range(3)]
    numbers = tuple(sorted(set(groups)).index(each) for each in groups) * 3
    grouping = Grouping(numbers, Source.MANIFEST) if groups else UNGROUPED
    return Images(dataset, Split(*parts, 0), grouping=grouping)


SITES = ["roof"] * 25 + ["cellar"] * 20 + ["yard"] * 15


@pytest.mark.parametrize(
    ("options", "images"),
    [
        ({"metric": "macro-f1"}, images_of()),
        ({"metric": "top5", "min_accuracy": "top1=50%"}, images_of("abcdef")),
        ({"min_accuracy": "worst-group=50%"}, images_of(groups=SITES)),
        ({"costs": COSTS}, images_of()),
        ({"costs": COSTS, "metric": "top1"}, images_of(labels=[0] * EACH)),
        ({**BOXES, "metric": "map-medium"}, boxed_images()),
    ],
)
def test_metrics_that_the_images_give_are_accepted(options: dict[str, Any], images: Images) -> None:
    require_metrics(resolve({"data": "photos", **options}).question, images)


@pytest.mark.parametrize(
    ("options", "images", "message"),
    [
        ({"metric": "top5"}, images_of("abcde"), "--metric: top5 needs more than 5 classes, and the images have 5"),
        ({"min_accuracy": "top5=9%"}, images_of("ab"), "--min-accuracy: top5 needs more than 5 classes"),
        (
            {"min_accuracy": "worst-group=80%"},
            images_of(groups=["roof"] * 41 + ["cellar"] * 19),
            "--min-accuracy: worst-group compares groups of at least 20 images, and the validation part has 1 of them",
        ),
        (
            {**BOXES, "metric": "map-large"},
            boxed_images(),
            "96 pixels of the photograph, and the validation part has none",
        ),
        ({"costs": COSTS}, images_of("abc"), "has no row and column for the class 'c' of the images"),
        ({"costs": COSTS}, images_of("ac"), "the images have no class 'b' of the table"),
        ({"costs": COSTS}, images_of(labels=[0] * EACH), "always answering 'a' costs nothing on the validation part"),
    ],
)
def test_metrics_that_the_images_cannot_give_are_refused(options: dict[str, Any], images: Images, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        require_metrics(resolve({"data": "photos", **options}).question, images)
    assert message in refused.value.message
    assert refused.value.hint


def manifest_of(folder: Path, sites: Sequence[str], parts: Sequence[str]) -> Path:
    """Write 120 images of two classes, and a manifest with their sites and parts in turn."""
    rows = ["path,label,group,split"]
    for label in "ab":
        for number, path in enumerate(fill(folder / label, 60)):
            rows.append(f"{path},{label},{sites[number % len(sites)]},{parts[number % len(parts)]}")
    file = folder / "photos.csv"
    file.write_text("\n".join(rows))
    return file


def test_sites_in_each_part_of_a_manifest_are_compared_and_four_kept_whole_are_too_few(tmp_path: Path) -> None:
    data = manifest_of(tmp_path, ["roof", "cellar"], ["train"] * 2 + ["val"] * 2 + ["test"] * 2)
    images = read_images(resolve({"data": str(data), "metric": "worst-group"}).question, lambda _: None)
    assert images is not None
    assert Counter(images.group_names(Role.HOLDOUT)) == {"roof": 20, "cellar": 20}
    unnamed = images_of(groups=[""] * 30 + ["roof"] * 30)
    assert set(unnamed.group_names(Role.VALIDATION)) == {"no. 1", "roof"}
    assert images_of().group_names(Role.HOLDOUT) == ()
    data = manifest_of(tmp_path, ["roof", "cellar", "yard", "hall"], [""])
    with pytest.raises(UsageError, match="worst-group compares groups of at least 20 images") as refused:
        read_images(resolve({"data": str(data), "metric": "worst-group"}).question, lambda _: None)
    assert "by the column 'split'" in refused.value.hint
