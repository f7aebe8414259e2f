"""A classifier's threshold and its class for unknown things: in the file, in the code and in MediaPipe."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from advisor.core import (
    ConfidenceFacts,
    Evaluation,
    Guarantees,
    Interval,
    OnAllImages,
    RecallThreshold,
    Shares,
    Threshold,
    UsageError,
)
from advisor.integrations import coreml
from advisor.reporting import Bundle
from advisor.reporting._bundle.bundle import export
from advisor.store import Problem, RunFolder, sha256_file
from advisor.tasks.classification._answers import compute_probabilities
from advisor.tflite import Metadata
from tests.builders import must_fail, present
from tests.makers import bundles

pytestmark = pytest.mark.integration

SCORE = 0.5
PART = Interval(0.03, 0.02, 0.05)
ASKED = Guarantees(Shares(0.95))


def asked(run: RunFolder, threshold: Threshold | None, wanted: Guarantees = ASKED, **more: Any) -> RunFolder:
    """Return the run as if the user had asked for a precision, and validation had given this threshold."""
    row = bundles.evaluation_of(run, "float32")
    facts = ConfidenceFacts(1.2, PART, PART, PART, PART, (), 0.95, threshold, wanted=wanted, answered=threshold, **more)
    content = (run.path / row.artefact).read_bytes()
    changed = bundles.replace_artefact(run, row, content, replace(row.answers, confidence=facts))
    run.append(replace(changed, holdout_answers=None))
    return run


def made(run: RunFolder, folder: Path) -> Bundle:
    return bundles.export_form(run, "float32", folder / "bundle")


@pytest.fixture
def unsure(many_images: list[bundles.Pixels]) -> list[bundles.Pixels]:
    """Pictures, noise among them, which hardly looks like any class."""
    noise = np.random.default_rng(0).integers(0, 256, (6, *many_images[0].shape), dtype=np.uint8)
    return [*many_images[::10], *noise]


def test_the_python_code_says_if_it_is_unsure(copied: RunFolder, unsure: list[bundles.Pixels], tmp_path: Path) -> None:
    bundle = made(asked(copied, Threshold(0.999999, None, 0, 100)), tmp_path)
    Image.fromarray(unsure[-1]).save(tmp_path / "noise.png")
    said = bundles.output_of(bundle.path / "python" / "classify.py", tmp_path / "noise.png")
    assert said.strip().endswith("noise.png: unsure")


def test_the_card_says_what_the_threshold_guarantees_and_what_it_leaves(copied: RunFolder, tmp_path: Path) -> None:
    bundle = made(asked(copied, Threshold(SCORE, Interval(0.97, 0.95, 0.99), 80, 100)), tmp_path)
    card = " ".join((bundle.path / "model_card.md").read_text().split())
    assert "The threshold 0.5 was chosen for precision: from this probability on, 95 % of the answers should be" in card
    assert "97 % of the answers that count are right, and 80 % of the images have such an answer" in card
    assert json.loads((bundle.path / "bundle.json").read_text())["threshold"] == SCORE


@pytest.mark.parametrize(
    ("threshold", "wanted"),
    [(Threshold(SCORE, None, 0, 100), Guarantees()), (None, ASKED)],
    ids=["not asked", "none reached"],
)
def test_all_answers_count(copied: RunFolder, tmp_path: Path, threshold: Threshold | None, wanted: Guarantees) -> None:
    bundle = made(asked(copied, threshold, wanted), tmp_path)
    assert bundle.model.threshold is None
    assert "LEAST" not in (bundle.path / "android/Classifier.kt").read_text()


def everything(run: RunFolder, names: tuple[str, ...]) -> RunFolder:
    """Return a run with a threshold, one of a class and a recall threshold of another class."""
    share = Interval(0.97, 0.95, 0.99)
    wanted = Guarantees(Shares(0.95, {names[0]: 0.9}), Shares(None, {names[1]: 0.9}))
    return asked(
        run, Threshold(0.6, share, 80, 100), wanted,
        by_class={names[0]: Threshold(0.87, share, 10, 20)},
        recall={names[1]: RecallThreshold(0.9, 0.92, 0.0625, share, share, 30, 100)},
    )  # fmt: skip


def labels_of(run: RunFolder) -> tuple[str, ...]:
    return Metadata.read((run.path / bundles.evaluation_of(run, "float32").artefact).read_bytes()).labels


@pytest.fixture(scope="module")
def guarded(trained: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("guarded")
    run = RunFolder.open(Path(shutil.copytree(trained.path, folder / "run")))
    return made(everything(run, labels_of(run)), folder)


def test_thresholds_of_classes_are_in_the_code_the_card_and_the_summary(guarded: Bundle) -> None:
    bundle, names = guarded, guarded.model.labels
    kotlin, swift = ((bundle.path / file).read_text() for file in ("android/Classifier.kt", "ios/Classifier.swift"))
    assert "LEAST = 0.6f" in kotlin
    assert "LEAST_OF = mapOf(0 to 0.87f)" in kotlin
    assert "MAY_SHOW = mapOf(1 to 0.0625f)" in kotlin
    assert "leastOf: [Int: Float] = [0: 0.87]" in swift
    assert "mayShow: [Int: Float] = [1: 0.0625]" in swift
    card = " ".join((bundle.path / "model_card.md").read_text().split())
    assert "95 % of the answers of the other classes should be right" in card
    assert "count from 0.87 on: 90 % of them should be right" in card
    assert "if that probability is at least 0.0625, whatever the answer is: 90 % of the images" in card
    summary = json.loads((bundle.path / "bundle.json").read_text())
    assert summary["class_thresholds"] == {names[0]: 0.87}
    assert summary["recall_thresholds"] == {names[1]: 0.0625}


def test_test_vectors_say_what_the_app_does(guarded: Bundle, unsure: list[bundles.Pixels], tmp_path: Path) -> None:
    bundle, names = guarded, guarded.model.labels
    rows = json.loads((bundle.path / "test_vectors" / "vectors.json").read_text())["vectors"]
    for row in rows:
        least = 0.87 if row["label"] == 0 else 0.6
        assert row["answered"] == (max(row["probabilities"]) >= least)
        assert row["may_show"] == ([names[1]] if row["probabilities"][1] >= 0.0625 else [])
    Image.fromarray(unsure[-1]).save(tmp_path / "noise.png")
    said = bundles.output_of(bundle.path / "python" / "classify.py", tmp_path / "noise.png")
    assert "    may show: " in said


def test_mediapipe_compares_each_class_with_its_threshold(guarded: Bundle, unsure: list[bundles.Pixels]) -> None:
    metadata = Metadata.read(guarded.model.content)
    assert (metadata.threshold, metadata.by_class[:2]) == (pytest.approx(0.6), (0.87, 0.6))
    rows = compute_probabilities(guarded.model, np.stack(unsure))
    for found, row in zip(bundles.mediapipe_scores(guarded.model.content, unsure), rows, strict=True):
        expected = {place: score for place, score in enumerate(row) if score >= metadata.by_class[place]}
        assert {each.index: each.score for each in found} == pytest.approx(expected, abs=1e-5)


def test_mediapipe_shows_no_class_behind_one_that_is_left_out(copied: RunFolder, tmp_path: Path) -> None:
    names = labels_of(copied)
    own = {names[0]: Threshold(0.87, None, 0, 20)}
    bundle = made(asked(copied, None, Guarantees(Shares(None, {names[0]: 0.9})), by_class=own), tmp_path)
    metadata = Metadata.read(bundle.model.content)
    assert metadata.by_class == (0.87, *[0.5] * (len(names) - 1))
    assert bundle.model.threshold is None


def pick_of(run: RunFolder) -> Evaluation:
    return next(each for each in run.evaluations() if each.unknown is not None)


@pytest.fixture(scope="module")
def told(trained: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return export(trained.path, tmp_path_factory.mktemp("told") / "bundle", unknown_class=True)


def test_the_bundle_has_the_class_in_model_labels_card_vectors_and_its_check(trained: RunFolder, told: Bundle) -> None:
    facts = present(pick_of(trained).unknown)
    assert present(facts.kept).value > 0.5
    assert told.model.labels[-1] == facts.label == "unknown"
    assert (told.path / "labels.txt").read_text().splitlines()[-1] == "unknown"
    card = (told.path / "model_card.md").read_text().replace("\n", " ")
    assert "The last class, unknown, is for images of things that are none of the others. On the hold-out, " in card
    vectors = json.loads((told.path / "test_vectors/vectors.json").read_text())
    assert all(len(each["probabilities"]) == len(told.model.labels) for each in vectors["vectors"])
    bundles.output_of(told.path / "check.py")


def test_mediapipe_answers_noise_with_the_class(told: Bundle, many_images: list[bundles.Pixels]) -> None:
    noise = np.random.default_rng(0).integers(0, 256, many_images[0].shape, dtype=np.uint8)
    ((name, _),) = bundles.mediapipe_answers((told.path / "model.tflite").read_bytes(), [noise])
    assert name == "unknown"


def test_a_candidate_without_such_a_file_is_refused(copied: RunFolder, tmp_path: Path) -> None:
    own = pick_of(copied)
    other = next(each for each in copied.evaluations() if each.artefact and each.artefact != own.artefact)
    copied.append(replace(other, unknown=None))
    with pytest.raises(UsageError, match="no file with a class for unknown things"):
        export(copied.path, tmp_path / "bundle", pick=other.configuration.key, unknown_class=True)
    with pytest.raises(UsageError, match="--edgetpu"):  # it cannot run the class
        export(copied.path, tmp_path / "bundle", targets=["edgetpu"], unknown_class=True)


def test_a_changed_file_is_refused(copied: RunFolder, tmp_path: Path) -> None:
    facts = present(pick_of(copied).unknown)
    file = copied.path / facts.file
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:-1])
    must_fail(UsageError, "unknown.tflite", export, copied.path, tmp_path / "bundle", unknown_class=True)


FORM = "float16"


def learnt(run: RunFolder, form: str = FORM, reason: str = "") -> Evaluation:
    """Let a form have a file that learns from all images: the bytes are those of the float32 file."""
    own, file = bundles.evaluation_of(run, form), "artifacts/learnt-all.tflite"
    (run.path / file).write_bytes((run.path / bundles.evaluation_of(run, "float32").artefact).read_bytes())
    made = (
        OnAllImages(file, sha256_file(run.path / file), 1, 48, 10, 0.9, 10)
        if not reason
        else OnAllImages(reason=reason)
    )
    run.append(changed := replace(own, on_all=made))
    return changed


def test_the_bundle_has_the_file_that_learnt_from_all_images(copied: RunFolder, tmp_path: Path) -> None:
    own = learnt(copied)
    bundle = export(copied.path, tmp_path / "bundle", pick=own.configuration.key)
    assert (bundle.path / "model.tflite").read_bytes() == (copied.path / own.on_all.file).read_bytes()
    card = " ".join((bundle.path / "model_card.md").read_text().replace("\\", "").split())
    assert "**This file**: It has learnt from all 48 images, 10 (26 %) more than the judged file." in card
    assert "held out for the accuracy above, and learnt from by this file alone" in card
    facts = json.loads((bundle.path / "bundle.json").read_text())
    assert facts["measured_sha256"] == own.artefact_sha256
    assert facts["model_sha256"] == facts["on_all_images"]["sha256"] == own.on_all.sha256
    assert facts["figures"]["accuracy"] is not None


def test_a_file_that_could_not_be_made_leaves_the_judged_file_in_the_bundle(copied: RunFolder, tmp_path: Path) -> None:
    own = learnt(copied, reason="there was no time left for it")
    bundle = export(copied.path, tmp_path / "bundle", pick=own.configuration.key)
    assert (bundle.path / "model.tflite").read_bytes() == (copied.path / own.artefact).read_bytes()
    card = " ".join((bundle.path / "model_card.md").read_text().split())
    assert "learnt from by this file alone" not in card
    assert "It has not learnt from all images, but from all outside the hold-out: there was no time left" in card


def test_a_missing_or_changed_file_is_refused_and_named(copied: RunFolder, tmp_path: Path) -> None:
    own = learnt(copied)
    assert Problem.list_in_run(copied) == ()
    (copied.path / own.on_all.file).write_bytes(b"other")
    with pytest.raises(UsageError, match="learnt-all.tflite has changed"):
        export(copied.path, tmp_path / "bundle", pick=own.configuration.key)
    assert [problem.file for problem in Problem.list_in_run(copied)] == [own.on_all.file]


def test_the_class_for_unknown_images_is_one_more_of_the_judged_file(copied: RunFolder, tmp_path: Path) -> None:
    own = next(each for each in copied.evaluations() if each.unknown is not None)
    learnt(copied, own.configuration.compression)
    bundle = export(copied.path, tmp_path / "bundle", pick=own.configuration.key, unknown_class=True)
    assert bundle.model.labels[-1] == "unknown"
    assert "This file" not in (bundle.path / "model_card.md").read_text()


def test_a_core_ml_package_of_the_judged_float_file_is_refused(
    copied: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coreml, "check", lambda _shipping: None)
    own = learnt(copied, "int8")
    with pytest.raises(UsageError, match="--coreml: .* has not learnt from all images"):
        export(copied.path, tmp_path / "bundle", pick=own.configuration.key, targets=["coreml"])
