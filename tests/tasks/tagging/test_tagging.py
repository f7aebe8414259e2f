"""Taggers: how their images are checked, and how they are learnt and judged."""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from advisor.api import export, predict
from advisor.core import Guarantees, Shares, Status, UsageError
from advisor.datasets import LabelSetSurvey
from advisor.engine import resolve
from advisor.integrations.browser import LITERT
from advisor.measurement import label_precision, label_thresholds
from advisor.store import RunFolder
from advisor.tasks.tagging._images import TagFault, check_tags
from advisor.training import label_head
from tests.builders import must_fail
from tests.makers.browsers import ask_page, require_runtime
from tests.makers.label_sets import RNG, mark_labels, write_images, write_table, write_tags
from tests.makers.once import make_once


def test_images_and_labels_that_teach_nothing_are_named(tmp_path: Path) -> None:
    rows = {5: "0,0,0,1,0", 6: "0,1,0,,1\n06.png,0,0,0,0,1"}
    header = "path,r,g,b,lonely,most"
    table = write_table(write_images(tmp_path), lambda n: rows.get(n, f"{mark_labels(n)},0,{int(n % 8 > 0)}"), header)
    read = LabelSetSurvey.read_images(table)
    assert read.classes == ("b", "g", "most", "r")
    assert read.notes == ("1 label is not used, as fewer than 3 images have it: 'lonely' (1).",)
    (contradiction,) = read.images.dataset.rejected
    assert contradiction.reason == "rows 8 and 9 of 'tags.csv' contradict each other on 'g'"
    check = check_tags(table, lambda _: None)
    assert check.content.summary == "59 images, 4 labels, 2.3 of them in an image on average"
    messages = {finding.kind: finding.message for finding in reversed(check.findings)}
    said = [finding.message for finding in check.findings]
    assert "1 image has labels of which none is used, and counts as one without a label" in said
    assert messages[TagFault.NONE] == "8 images have no label"
    assert "'lonely' (1)" in messages[TagFault.UNUSED]
    assert messages[TagFault.COMMON] == "1 label is missing in fewer than 20 images: most (9)"


@pytest.mark.parametrize("groups", [range(300), [0] * 300])
def test_a_head_learns_each_label_from_what_is_known_of_it(groups: Sequence[int]) -> None:
    features = RNG(0).normal(size=(400, 20)).astype(np.float32)
    truth = (features[:, :3] > [0.0, 1.0, 0.0]).astype(np.int8)
    truth[::2, 2] = -1
    learnt = slice(300)
    head = label_head.fit_label_head(features[learnt], truth[learnt], groups, [str(n) for n in range(300)], 0)
    logits = features[300:] @ head.weights + head.bias
    judged = label_precision.LabelScores((1 / (1 + np.exp(-logits))).astype(np.float32), truth[300:])
    assert min(judged.by_class) > 0.9
    assert np.mean(judged.shares) == pytest.approx(judged.figure.value) == pytest.approx(judged.by_class.mean())
    assert judged.figure.low < judged.figure.value < judged.figure.high
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
        thresholds, _ = label_thresholds.keep_shares(truth[:half], scores[:half], groups[:half].tolist(), [wish], 1.0)
        if thresholds:
            shown = scores[half:] >= thresholds[0]
            of = shown if wish.precision else truth[half:] == 1
            kept.append(truth[half:][of].mean() >= 0.8 if wish.precision else shown[of].mean() >= 0.9)
    assert len(kept) > 50
    assert np.mean(kept) >= 0.93


def test_a_share_by_name_comes_before_one_for_all_labels() -> None:
    wishes = label_thresholds.list_wishes(Guarantees(Shares(0.8), Shares(None, {"a": 0.9})), ["a", "b"])
    assert wishes == (Guarantees(recall=Shares(0.9)), Guarantees(Shares(0.8)))
    for name in ("", "a="):
        both = {"min_precision": [f"{name}80%"], "min_recall": [f"{name}90%"]}
        must_fail(UsageError, "cannot keep both", resolve, {"data": "tags.csv", "task": "image-tagging", **both})


@pytest.fixture(scope="module")
def run(shared_folder: Path, search_small: Callable[..., None]) -> RunFolder:
    """A search among heads and a fine-tuning of taggers."""
    data = make_once(shared_folder / "tags", write_tags)
    options = {"training": ["finetune_cached"], "min_recall": ["r=60%", "g=99%"]}
    runs = make_once(shared_folder / "tagging", partial(search_small, data, task="image-tagging", **options))
    return RunFolder((runs / "latest").resolve())


@pytest.mark.integration
def test_a_search_judges_and_reports_a_tagger(run: RunFolder) -> None:
    rows = run.evaluations()
    learnt = {("head", Status.OK), ("finetune_cached", Status.OK)}
    assert {(row.configuration.training, row.status) for row in rows} == learnt
    judged = next(row for row in rows if row.holdout_answers)
    assert min(row.accuracy.value for row in rows) > 80
    assert {"mAP by chance", "Macro F1", "Exact sets", "AP of r", "Recall of r"} <= set(judged.holdout_answers.figures)
    assert {name: one.kept for name, one in judged.answers.label_guarantees.items()} == {"g": False, "r": True}
    assert "No threshold can guarantee what was asked of these labels" in (run.path / "report.html").read_text()
    assert "Image by image" in (run.path / "report.html").read_text()


@pytest.mark.integration
def test_code_and_page_of_a_bundle_answer_as_the_run_does(
    run: RunFolder, shared_folder: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    image = shared_folder / "tags" / "07.png"
    (answer,) = predict(run.path, [image])
    bundle = export(run.path, tmp_path / "bundle").path
    program = subprocess.run([sys.executable, bundle / "python" / "tag.py", image], capture_output=True)
    assert [found.label for found in answer.found] == re.findall(r"([rgb]) \d", program.stdout.decode())
    require_runtime(LITERT)
    page, scores = ask_page(request.getfixturevalue("browser"), bundle, image)
    assert page.inner_text("#answer").split(", ") == [found.label for found in answer.found]
    assert sorted(scores)[::-1][: len(answer.found)] == pytest.approx([one.score for one in answer.found], abs=0.01)
