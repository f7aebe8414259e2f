"""The bundle of a pick whose file has learnt from all images: that file, and what is known of it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core import Evaluation, OnAllImages, UsageError
from advisor.exporting._bundle import export
from advisor.integrations import coreml
from advisor.store import RunFolder, integrity_problems, sha256_file
from tests.makers.bundles import evaluation_of

pytestmark = pytest.mark.integration

FORM = "float16"


def learnt(run: RunFolder, form: str = FORM, reason: str = "") -> Evaluation:
    """Let a form have a file that learns from all images: the bytes are those of the float32 file."""
    own, file = evaluation_of(run, form), "artifacts/learnt-all.tflite"
    (run.path / file).write_bytes((run.path / evaluation_of(run, "float32").artefact).read_bytes())
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
    assert integrity_problems(copied) == ()
    (copied.path / own.on_all.file).write_bytes(b"other")
    with pytest.raises(UsageError, match="learnt-all.tflite has changed"):
        export(copied.path, tmp_path / "bundle", pick=own.configuration.key)
    assert [problem.file for problem in integrity_problems(copied)] == [own.on_all.file]


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
