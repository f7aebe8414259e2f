"""Metrics that the images cannot give are refused before anything is spent."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from advisor.core import UsageError
from advisor.datasets import Dataset, Grouping, LabelledImage, Split
from advisor.datasets._dataset import compute_fingerprint
from advisor.datasets._image_groups import Source
from advisor.engine import Images, Role, resolve
from advisor.engine._space.question_images import read_images, require_metrics
from tests.builders import write_file
from tests.datasets.folders import fill
from tests.engine.pipeline.boxed import boxed_images
from tests.tables import with_cases

EACH = 60
"""Images of each part."""

SITES = ["roof"] * 25 + ["cellar"] * 20 + ["yard"] * 15


def images_of(classes: str = "ab", groups: Sequence[str] = (), labels: Sequence[int] = ()) -> Images:
    """Return images in three parts, of the same groups and labels in each."""
    labels = labels or [index % len(classes) for index in range(EACH)]
    files = tuple(
        LabelledImage(
            Path(f"{index}.jpg"), labels[index % EACH], str(index), group=(groups or [""] * EACH)[index % EACH]
        )
        for index in range(3 * EACH)
    )
    dataset = Dataset(Path(), tuple(classes), files, (), compute_fingerprint(classes, files))
    parts = [tuple(range(place * EACH, (place + 1) * EACH)) for place in range(3)]
    numbers = tuple(sorted(set(groups)).index(each) for each in groups) * 3
    grouping = Grouping(numbers, Source.MANIFEST) if groups else Grouping()
    return Images(dataset, Split(*parts, 0), grouping=grouping)


def images_with(classes: str = "ab", one_class: bool = False, **sites: int) -> Images:
    """Return such images by the number of each site, of all classes or the first; those of boxes without classes."""
    if not classes:
        return boxed_images()
    groups = [site for site, count in sites.items() for _ in range(count)]
    return images_of(classes, groups, [0] * EACH if one_class else ())


@with_cases
def test_metrics_that_the_images_give_are_accepted(options: dict[str, Any], images: dict[str, Any]) -> None:
    require_metrics(resolve({"data": "photos", **options}).question, images_with(**images))


@with_cases
def test_metrics_images_cannot_give_are_refused(options: dict[str, Any], images: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        require_metrics(resolve({"data": "photos", **options}).question, images_with(**images))
    assert message in refused.value.message
    assert refused.value.hint


def manifest_of(folder: Path, sites: Sequence[str], parts: Sequence[str]) -> Path:
    """Write 120 images of two classes, and a manifest with their sites and parts in turn."""
    rows = ["path,label,group,split"]
    for label in "ab":
        for number, path in enumerate(fill(folder / label, 60)):
            rows.append(f"{path},{label},{sites[number % len(sites)]},{parts[number % len(parts)]}")
    return write_file(folder / "photos.csv", "\n".join(rows))


def test_sites_in_each_part_of_a_manifest_are_compared_and_four_kept_whole_are_too_few(tmp_path: Path) -> None:
    data = manifest_of(tmp_path, ["roof", "cellar"], ["train"] * 2 + ["val"] * 2 + ["test"] * 2)
    images = read_images(resolve({"data": str(data), "metric": "worst-group"}).question, lambda _: None)
    assert Counter(images.group_names(Role.HOLDOUT)) == {"roof": 20, "cellar": 20}
    unnamed = images_of(groups=[""] * 30 + ["roof"] * 30)
    assert set(unnamed.group_names(Role.VALIDATION)) == {"no. 1", "roof"}
    assert images_of().group_names(Role.HOLDOUT) == ()
    data = manifest_of(tmp_path, ["roof", "cellar", "yard", "hall"], [""])
    with pytest.raises(UsageError, match="worst-group compares groups of at least 20 images") as refused:
        read_images(resolve({"data": str(data), "metric": "worst-group"}).question, lambda _: None)
    assert "by the column 'split'" in refused.value.hint
