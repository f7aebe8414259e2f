"""Users' own taggers: which files are taken, their thresholds, and their place in a search."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.schema_py_generated import BuiltinOperator, FullyConnectedOptionsT

from advisor.catalog import ImportedModel, classifier, make_shipped_card
from advisor.catalog._user_models.import_model import ModelDescription, add, inspect
from advisor.core import Guarantees, Shares, UsageError
from advisor.datasets import InputSpec
from advisor.store import RunFolder
from advisor.tasks.classification import CLASSIFICATION
from advisor.tasks.tagging import TAGGING
from advisor.tasks.tagging._own import name_scores
from advisor.tasks.tagging._stages import tag
from advisor.tasks.tagging._thresholds import ScoredImages, fold_thresholds
from advisor.tflite import Metadata, read
from tests.builders import must_fail, write_file
from tests.makers.label_sets import COUNT, RNG, labels_of, write_images, write_tags
from tests.makers.once import make_once
from tests.measurement import small_models

SIDE = 40
# In another order than the images have them, and with one that they lack.
LABELS = ("g", "x", "b", "r")
COLOURS = np.array([[0, 10, 0], [0, 0, 0], [0, 0, 10], [10, 0, 0]], np.float32)
VIEW = InputSpec(SIDE, (127.5,) * 3, (127.5,) * 3)
SAID = Metadata("net", LABELS, (127.5,), (127.5,), licence="MIT")

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("own_folders", "in_process")]


def colour_net(end: int | None = BuiltinOperator.LOGISTIC, bias: float | None = 7.0) -> bytes:
    """A tagger that sees red, green and blue; with the bias, all labels have scores above one half."""
    build = small_models.Builder()
    inputs = [build.mean(build.input(SIDE)), build.constant(COLOURS)]
    inputs.append(-1 if bias is None else build.constant(np.full(len(LABELS), bias, np.float32)))
    row = (1, len(LABELS))
    scores = build.operator(BuiltinOperator.FULLY_CONNECTED, inputs, row, FullyConnectedOptionsT())
    scores = scores if end is None else build.operator(end, [scores], row)
    return build.finish({"image": 0}, {"scores": scores})


def kept(folder: Path, data: bytes, name: str = "net") -> Path:
    return write_file(folder / f"{name}.tflite", SAID.write_into(data))


def brought(file: Path, finished: bool = False, task: str = "", into: Path | None = None) -> ImportedModel:
    with inspect(file, finished=finished, task=task) as inspected:
        return add(inspected, ModelDescription(), into)


def test_sigmoids_say_the_task_and_logits_get_them_where_the_user_says_it(tmp_path: Path) -> None:
    added = brought(kept(tmp_path, colour_net()))
    assert (added.card.architecture, added.card.task, added.card.is_finished) == ("tflite_tagger", TAGGING.name, True)
    assert {label for _, label, _ in added.seen} <= set(LABELS)
    logits = kept(tmp_path, colour_net(None), "logits")
    assert brought(logits, task=TAGGING.name).card.task == TAGGING.name
    assert brought(logits.rename(tmp_path / "other.tflite")).card.task == CLASSIFICATION.name
    image = np.full((1, SIDE, SIDE, 3), 0.1, np.float32)
    files = [tmp_path / "config" / "models" / f"{name}.tflite" for name in ("net", "logits")]
    plain, ended = (classifier.run(file.read_bytes(), image)["scores"] for file in files)
    np.testing.assert_allclose(ended, plain, atol=1e-6)


def test_a_file_of_8_bits_keeps_its_form_and_its_scores(tmp_path: Path) -> None:
    data = small_models.quantized(colour_net(), tmp_path, SIDE)
    added = brought(kept(tmp_path, data))
    assert (added.card.architecture, added.card.form) == ("tflite_fixed_tagger", "int8")
    kept_operators, given = (read(content).operators for content in (added.model.read_bytes(), data))
    assert [operator.name for operator in kept_operators] == [operator.name for operator in given]
    (image,) = write_images(tmp_path, 1).glob("*.png")
    tag(False, added.model, [image], VIEW, tmp_path / "scores.npy", LABELS)
    expected = classifier.scores_of(data, VIEW.read(image)[None], "net")
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), [expected])
    assert 0 < expected.min() <= expected.max() <= 1


@pytest.mark.parametrize(
    ("make", "finished", "reason"),
    [
        (partial(colour_net, BuiltinOperator.SOFTMAX), False, "its scores add up to one: it ends in a softmax"),
        (partial(colour_net, None), True, "it gives logits, and a file that keeps its form has sigmoids"),
        (lambda: small_models.scaling(SIDE, 4), True, "its scores add up to one: it ends in a softmax"),
    ],
)
def test_no_labels_are_refused(tmp_path: Path, make: Callable[[], bytes], finished: bool, reason: str) -> None:
    must_fail(UsageError, reason, brought, kept(tmp_path, make()), finished, TAGGING.name)
    with pytest.raises(UsageError, match=f"--candidates: .*{'logits' if 'logits' in reason else 'softmax'}"):
        make_shipped_card(kept(tmp_path, make()), task=TAGGING.name)


def test_sigmoids_without_a_linear_layer_are_taken_as_they_are_alone(tmp_path: Path) -> None:
    build = small_models.Builder()
    pooled = build.mean(build.input(SIDE))
    data = build.finish({"image": 0}, {"scores": build.operator(BuiltinOperator.LOGISTIC, [pooled], (1, 3))})
    (tmp_path / "net.tflite").write_bytes(data)
    refused = must_fail(UsageError, "no thresholds can be put into it", brought, tmp_path / "net.tflite")
    assert "--as-it-is" in refused.hint


@pytest.mark.parametrize("bias", [7.0, None])
def test_thresholds_go_into_the_head_by_the_names_of_the_labels(tmp_path: Path, bias: float | None) -> None:
    images = sorted(write_images(tmp_path).glob("*.png"))
    truth = [[int(name in labels_of(number)) for name in "bgr"] for number in range(COUNT)]
    file = kept(tmp_path, classifier.with_bias(name_scores(colour_net(bias=bias), "net"), "net"))
    tag(False, file, images, VIEW, tmp_path / "before.npy", "bgr")
    wishes = (Guarantees(recall=Shares(0.5)),) * 3
    known = ScoredImages(tmp_path / "before.npy", truth, range(COUNT), (2, 0, 3), wishes, 1.0)
    notes = fold_thresholds(file, known, tmp_path / "after.tflite")
    assert [note and note["kept"] for note in notes] == [True] * 3
    folded = kept(tmp_path, (tmp_path / "after.tflite").read_bytes(), "folded")
    tag(False, folded, images, VIEW, tmp_path / "after.npy", "bgr")
    before, after = (np.load(tmp_path / f"{name}.npy") for name in ("before", "after"))
    assert ((before >= 0.5) == np.array(truth)).all() == (bias is None)
    assert ((after >= 0.5) == np.array(truth)).mean() > 0.8
    assert (before.argsort(axis=0, kind="stable") == after.argsort(axis=0, kind="stable")).mean() > 0.9
    image = RNG(0).normal(size=(1, SIDE, SIDE, 3)).astype(np.float32)
    rows = [classifier.scores_of(path.read_bytes(), image, "net") for path in (file, folded)]
    assert rows[0][1] == pytest.approx(rows[1][1])


def test_a_search_judges_own_files_with_thresholds_beside_the_trained_one(
    shared_folder: Path, tmp_path: Path, small_catalog: Path, search_small: Callable[..., None]
) -> None:
    data = make_once(shared_folder / "tags", write_tags)
    own = tmp_path / "own.yaml"
    brought(kept(tmp_path, colour_net(), "floats"), into=own)
    finished = kept(tmp_path, colour_net(), "finished")
    runs = tmp_path / "runs"
    options = {"catalog": [str(small_catalog), str(own)], "candidates": ["small", "floats", str(finished)]}
    search_small(data, runs, task=TAGGING.name, compressions=["float32"], training=["head"], **options)
    run = RunFolder((runs / "latest").resolve())
    rows = {row.configuration.card: row for row in run.evaluations() if row.holdout_answers}
    assert {"floats", "finished"} <= set(rows)
    for name in ("floats", "finished"):
        assert rows[name].holdout_answers.figures["Macro F1"].value > 90
    assert set(rows["finished"].holdout_answers.label_thresholds) == set("bgr")
    assert min(rows["finished"].holdout_answers.label_thresholds.values()) > 0.9
    assert not rows["floats"].answers.label_thresholds
    shipped = TAGGING.shipping().thresholds(rows["finished"])
    assert (set(shipped.by_class), shipped.several) == (set("bgr"), True)
