"""Images with any number of labels: how they are read, divided, learnt and judged."""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.api import export, predict
from advisor.core import Guarantees, Shares, Status, UsageError
from advisor.engine import resolve
from advisor.store import RunFolder
from advisor.tasks.tagging._division import deal_out
from advisor.tasks.tagging._files import TagScores
from advisor.tasks.tagging._guarantees import keep_shares, list_wishes
from advisor.tasks.tagging._head import fit_tag_head
from advisor.tasks.tagging._images import TagFault, check_tags, divide_tags, survey_tags
from advisor.tasks.tagging._precision import list_precisions, list_precisions_without, mean_precision
from tests.builders import must_fail
from tests.makers.once import make_once

COUNT = 60
RNG = np.random.default_rng


def write_images(folder: Path, count: int = COUNT) -> Path:
    """Write images of noise whose red, green and blue are raised where the labels r, g and b are there."""
    for number in range(count):
        pixels = RNG(number).integers(0, 90, (40, 40, 3)) + 120 * np.array([number >> bit & 1 for bit in range(3)])
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:02}.png")
    return folder


def labels_of(number: int, names: str = "rgb") -> list[str]:
    return [name for bit, name in enumerate(names) if number >> bit & 1]


def write_table(folder: Path, rows: Callable[[int], str], header: str = "path,labels", name: str = "tags.csv") -> Path:
    lines = [header, *(f"{number:02}.png,{rows(number)}" for number in range(COUNT))]
    (folder / name).write_text("\n".join(filter(None, lines)) + "\n", encoding="utf-8")
    return folder / name


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"))


def flags(number: int, yes: str = "1", no: str = "0") -> str:
    return ",".join(yes if number >> bit & 1 else no for bit in range(3))


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("path,labels", lambda number: "|".join(labels_of(number))),
        ("image,tags", lambda number: ";".join(labels_of(number))),
        ("filename,labels", lambda number: " ".join(labels_of(number))),
        ("path,labels", lambda number: '"' + str(labels_of(number)).replace("'", '""') + '"'),
        ("filename, r, g, b", flags),
        ("image_id,r,g,b", partial(flags, no="-1")),
        ("path,labels", lambda number: f"\n{number:02}.png,".join(labels_of(number))),
    ],
)
def test_tables_of_any_kind_say_the_same(images: Path, header: str, rows: Callable[[int], str]) -> None:
    read = survey_tags(write_table(images, rows, header))
    assert read.classes == ("b", "g", "r")
    expected = [[int(name in labels_of(number)) for name in "bgr"] for number in range(COUNT)]
    assert read.truth.tolist() == expected


def test_lines_of_json_have_lists(images: Path) -> None:
    lines = "\n".join(
        f'{{"file_name": "{n:02}.png", "labels": {labels_of(n)}}}'.replace("'", '"') for n in range(COUNT)
    )
    path = images / "metadata.jsonl"
    path.write_text(lines, encoding="utf-8")
    assert survey_tags(path).counts == {"b": 28, "g": 30, "r": 30}


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        ("path,labels", lambda _: "", "names no label"),
        ("path,r,g,b", lambda _: ",,-1", "has no label that 3 images have and 3 lack"),
        ("path,labels", lambda number: "one" if number == 5 else "", r"'one' \(1\)"),
        ("path,labels", lambda _: "all", r"too few images lack them: 'all' \(60\)"),
        ("path,width", lambda number: str(100 + number), "has no column of labels, and none of 1 and 0, but 'path'"),
        (
            "path,r",
            lambda number: "perhaps" if number == 5 else str(number % 2),
            "row 7 of .* has 'perhaps' in the column",
        ),
        (
            "path,labels",
            lambda number: "|".join(f"{n}" for n in range(number * 20, number * 20 + 20)),
            "has 1,200 labels",
        ),
    ],
)
def test_tables_that_say_too_little_are_refused(
    images: Path, header: str, rows: Callable[[int], str], message: str
) -> None:
    must_fail(UsageError, message, survey_tags, write_table(images, rows, header))


def test_unknown_labels_contradictions_and_many_labels_are_read(images: Path) -> None:
    read = survey_tags(write_table(images, lambda n: "," if n < 9 else f"{n % 2},{n % 3 % 2}", "path,r,g"))
    assert read.truth.shape == (51, 2)
    assert {row.reason for row in read.images.dataset.rejected} == {"none of its labels is known"}
    read = survey_tags(write_table(images, lambda n: "a|b\n00.png,b|c" if n == 0 else "a" if n % 2 else "b|c"))
    assert "rows 2 and 3 of 'tags.csv' give it different labels" in read.images.dataset.rejected[0].reason
    many = survey_tags(write_table(images, lambda n: "|".join(f"{(14 * n + k) % 200:03}" for k in range(14))))
    assert len(many.classes) == 200


def test_images_and_labels_that_teach_nothing_are_named(images: Path) -> None:
    rows = {5: "1,0,0,1", 6: "0,1,0,\n06.png,0,0,0,0"}
    table = write_table(images, lambda n: rows.get(n, f"{flags(n)},0"), "path,r,g,b,lonely")
    read = survey_tags(table)
    assert read.classes == ("b", "g", "r")
    assert read.notes == ("1 label is not used, as too few images have them: 'lonely' (1).",)
    (contradiction,) = read.images.dataset.rejected
    assert contradiction.reason == "rows 8 and 9 of 'tags.csv' contradict each other on 'g'"
    messages = {finding.kind: finding.message for finding in check_tags(table, lambda _: None).findings}
    assert messages[TagFault.NONE] == "8 images have no label"
    assert "'lonely' (1)" in messages[TagFault.UNUSED]


def test_parts_get_their_share_of_each_label_in_whole_groups(images: Path) -> None:
    truth = (RNG(0).random((900, 12)) < np.linspace(0.02, 0.4, 12)).astype(np.int8)
    groups = RNG(1).integers(0, 300, 900)
    part = deal_out(truth, groups.tolist(), [str(number) for number in range(900)], [0.6, 0.2, 0.2], 0)
    assert all(len(set(part[groups == group])) == 1 for group in range(300) if (groups == group).any())
    shares = np.array([truth[part == place].sum(axis=0) / truth.sum(axis=0) for place in range(3)])
    assert abs(shares - np.array([[0.6], [0.2], [0.2]])).max() < 0.1
    read = survey_tags(write_table(images, lambda n: "|".join(labels_of(n))))
    split = divide_tags(read, 0).split
    assert sorted((*split.train, *split.validation, *split.holdout)) == list(range(COUNT))
    assert (
        check_tags(images / "tags.csv", lambda _: None).content.summary == "60 images, 3 labels, 1.5 of them an image"
    )


def test_average_precision_counts_equal_scores_together_and_leaves_out_what_is_unknown() -> None:
    truth = RNG(0).integers(-1, 2, (40, 3)).astype(np.int8)
    scores = RNG(1).integers(0, 8, (40, 3)) / 8

    def slow(rows: np.ndarray, values: np.ndarray) -> float:
        rows, values = rows[rows >= 0], values[rows >= 0]
        return float(np.mean([rows[values >= value].mean() for value in values[rows == 1]]))

    np.testing.assert_allclose(list_precisions(truth, scores), [slow(truth[:, c], scores[:, c]) for c in range(3)])
    left = [[slow(np.delete(truth[:, c], n), np.delete(scores[:, c], n)) for c in range(3)] for n in range(40)]
    np.testing.assert_allclose(list_precisions_without(truth, scores), left)
    judged = TagScores(scores.astype(np.float32), truth)
    assert np.mean(judged.shares) == pytest.approx(judged.figure.value) == pytest.approx(mean_precision(truth, scores))
    assert judged.figure.low < judged.figure.value < judged.figure.high


@pytest.mark.parametrize("groups", [range(300), [0] * 300])
def test_a_head_learns_each_label_from_what_is_known_of_it(groups: Sequence[int]) -> None:
    features = RNG(0).normal(size=(400, 20)).astype(np.float32)
    truth = (features[:, :3] > [0.0, 1.0, 0.0]).astype(np.int8)
    truth[::2, 2] = -1
    learnt = slice(300)
    head = fit_tag_head(features[learnt], truth[learnt], groups, [str(n) for n in range(300)], 0)
    logits = features[300:] @ head.weights + head.bias
    judged = TagScores((1 / (1 + np.exp(-logits))).astype(np.float32), truth[300:])
    assert min(judged.by_class) > 0.9
    macro, micro, exact = judged.f1_scores()
    assert min(macro.value, micro.value) > 0.85 > 0.6 < exact.value


@pytest.mark.parametrize("wish", [Guarantees(Shares(0.8)), Guarantees(recall=Shares(0.9))])
@pytest.mark.parametrize("size", [1, 3])
def test_thresholds_keep_their_share_on_new_images(wish: Guarantees, size: int) -> None:
    kept = []
    for draw in range(100):
        # Images of one group show nearly the same.
        hidden = np.repeat(RNG(draw).normal(size=(800 // size, 1)), size, axis=0)
        noise = np.repeat(RNG(draw + 900).normal(size=hidden[::size].shape), size, axis=0)
        truth = (hidden + noise / 3 > 0.5).astype(np.int8)
        scores = 1 / (1 + np.exp(-2 * hidden))
        groups = np.arange(len(hidden)) // size
        half = len(hidden) // 2
        thresholds, _ = keep_shares(truth[:half], scores[:half], groups[:half].tolist(), [wish], 1.0)
        if thresholds:
            shown = scores[half:] >= thresholds[0]
            of = shown if wish.precision else truth[half:] == 1
            kept.append(truth[half:][of].mean() >= 0.8 if wish.precision else shown[of].mean() >= 0.9)
    assert len(kept) > 50
    assert np.mean(kept) >= 0.93


def test_a_share_by_name_comes_before_one_for_all_labels() -> None:
    wishes = list_wishes(Guarantees(Shares(0.8), Shares(None, {"a": 0.9})), ["a", "b"])
    assert wishes == (Guarantees(recall=Shares(0.9)), Guarantees(Shares(0.8)))
    for both in (
        {"min_precision": ["80%"], "min_recall": ["80%"]},
        {"min_precision": ["a=80%"], "min_recall": ["a=90%"]},
    ):
        must_fail(UsageError, "cannot keep both", resolve, {"data": "tags.csv", "task": "image-tagging", **both})


@pytest.mark.integration
def test_a_search_judges_reports_and_ships_a_tagger(shared_folder: Path, search_small: Callable[..., None]) -> None:
    data = make_once(
        shared_folder / "tags", lambda folder: write_table(write_images(folder), lambda n: "|".join(labels_of(n)))
    )
    runs = make_once(
        shared_folder / "tagging", partial(search_small, data, task="image-tagging", min_recall=["r=60%", "g=99%"])
    )
    run = RunFolder((runs / "latest").resolve())
    rows = run.evaluations()
    assert {(row.configuration.training, row.status) for row in rows} == {("head", Status.OK)}
    judged = next(row for row in rows if row.holdout_answers)
    assert min(row.accuracy.value for row in rows) > 80
    assert {"Macro F1", "Micro F1", "Exact sets", "AP of r", "Recall of r"} <= set(judged.holdout_answers.figures)
    assert {name: one.kept for name, one in judged.answers.label_guarantees.items()} == {"g": False, "r": True}
    assert "No threshold can guarantee what was asked of these labels" in (run.path / "report.html").read_text()
    assert "Image by image" in (run.path / "report.html").read_text()
    (answer,) = predict(run.path, [data / "07.png"])
    bundle = export(run.path, data.parent / "bundle", web=False).path
    program = subprocess.run([sys.executable, bundle / "python" / "tag.py", data / "07.png"], capture_output=True)
    assert [found.label for found in answer.found] == re.findall(r"([rgb]) \d", program.stdout.decode())
