"""Images with any number of labels: how tables of them are read, and how they are divided."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from advisor.core import UsageError
from advisor.datasets import LabelSetSurvey, deal_out
from tests.builders import must_fail
from tests.makers.label_sets import COUNT, RNG, labels_of, mark_labels, write_images, write_table


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"))


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("path,labels", lambda number: "|".join(labels_of(number))),
        ("image,tags", lambda number: ";".join(labels_of(number))),
        ("filename,labels", lambda number: " ".join(labels_of(number))),
        ("path,labels", lambda number: '"' + str(labels_of(number)).replace("'", '""') + '"'),
        ("filename, r, g, b", mark_labels),
        ("image_id,r,g,b", partial(mark_labels, no="-1")),
        ("path,labels", lambda number: f"\n{number:02}.png,".join(labels_of(number))),
    ],
)
def test_tables_of_any_kind_say_the_same(images: Path, header: str, rows: Callable[[int], str]) -> None:
    read = LabelSetSurvey.read_images(write_table(images, rows, header))
    assert read.classes == ("b", "g", "r")
    expected = [[int(name in labels_of(number)) for name in "bgr"] for number in range(COUNT)]
    assert read.truth.tolist() == expected


def test_lines_of_json_have_lists(images: Path) -> None:
    lines = "\n".join(
        f'{{"file_name": "{n:02}.png", "labels": {labels_of(n)}}}'.replace("'", '"') for n in range(COUNT)
    )
    path = images / "metadata.jsonl"
    path.write_text(lines, encoding="utf-8")
    assert LabelSetSurvey.read_images(path).counts == {"b": 28, "g": 30, "r": 30}


@pytest.mark.parametrize(
    ("header", "rows", "message", "hint"),
    [
        ("path,labels", lambda _: "", "names no label", "give a CSV"),
        ("path,r,g,b", lambda _: ",,-1", "has no label that 3 images have and 3 lack", "write 1 or 0"),
        ("path,labels", lambda number: "one" if number == 5 else "", r"'one' \(1\)", "add images"),
        ("path,labels", lambda _: "all", r"too few images lack them: 'all' \(60\)", "add images"),
        ("labels,path", lambda n: f"no/x{n}.png", "names 60 images, and none can be used", "correct the paths"),
        ("path,width", lambda number: str(100 + number), "has no column of labels, and none of 1 and 0", "give a CSV"),
        ("path,r", lambda n: "perhaps" if n == 5 else str(n % 2), "row 7 of .* has 'perhaps' in the column", ""),
        ("path,labels", lambda n: "|".join(map(str, range(n * 20, n * 20 + 20))), "has 1,200 labels", "1,000"),
    ],
)
def test_tables_that_say_too_little_are_refused(
    images: Path, header: str, rows: Callable[[int], str], message: str, hint: str
) -> None:
    refused = must_fail(UsageError, message, LabelSetSurvey.read_images, write_table(images, rows, header))
    assert refused.hint.startswith(hint)


def test_unknown_labels_contradictions_and_many_labels_are_read(images: Path) -> None:
    read = LabelSetSurvey.read_images(
        write_table(images, lambda n: "," if n < 9 else f"{n % 2},{n % 3 % 2}", "path,r,g")
    )
    assert read.truth.shape == (51, 2)
    assert {row.reason for row in read.images.dataset.rejected} == {"none of its labels is known"}
    read = LabelSetSurvey.read_images(
        write_table(images, lambda n: "a|b\n00.png,b|c" if n == 0 else "a" if n % 2 else "b|c")
    )
    assert "rows 2 and 3 of 'tags.csv' give it different labels" in read.images.dataset.rejected[0].reason
    many = LabelSetSurvey.read_images(
        write_table(images, lambda n: "|".join(f"{(14 * n + k) % 200:03}" for k in range(14)))
    )
    assert len(many.classes) == 200


def test_parts_get_their_share_of_each_label_in_whole_groups(images: Path) -> None:
    truth = (RNG(0).random((900, 12)) < np.linspace(0.02, 0.4, 12)).astype(np.int8)
    groups = RNG(1).integers(0, 300, 900)
    part = deal_out(truth, groups.tolist(), [str(number) for number in range(900)], [0.6, 0.2, 0.2], 0)
    assert all(len(set(part[groups == group])) == 1 for group in range(300) if (groups == group).any())
    shares = np.array([truth[part == place].sum(axis=0) / truth.sum(axis=0) for place in range(3)])
    assert abs(shares - np.array([[0.6], [0.2], [0.2]])).max() < 0.1
    read = LabelSetSurvey.read_images(write_table(images, lambda n: "|".join(labels_of(n))))
    split = read.divide_images(0).split
    assert sorted((*split.train, *split.validation, *split.holdout)) == list(range(COUNT))
