"""The bundle: complete, the same each time, checked by its own checker; nothing else is replaced by it."""

import hashlib
import json
import os
import shutil
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from advisor.core import DeviceFigures, ImageAnswers, UsageError
from advisor.engine import LoadedRun
from advisor.reporting import Bundle, RunView, ShippedModel
from advisor.reporting._bundle.bundle import export
from advisor.reporting._bundle.documents import PLATFORMS, benchmark_lines, devices_of, render_code
from advisor.reporting._bundle.vectors import vector_files
from advisor.reporting._risks import list_risks, list_warnings
from advisor.reporting._text import escape_markdown
from advisor.store import RunFolder
from advisor.tasks.classification._answers import compute_probabilities
from advisor.tasks.classification._shipping import SHIPPING
from advisor.tflite import Metadata
from tests.builders import evaluation, must_fail
from tests.makers import bundles
from tests.tables import read_table

FILES = set(read_table(__file__, "texts.yaml")["files_of_a_bundle"])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def own(bundle: Bundle, tmp_path: Path) -> Path:
    """A copy of the bundle, to be changed."""
    return Path(shutil.copytree(bundle.path, tmp_path / "bundle"))


def test_it_holds_what_a_team_needs_and_sums_that_sha256sum_reads(bundle: Bundle) -> None:
    found = contents(bundle.path)
    assert set(bundle.files) == set(found) >= FILES
    assert all(name.startswith("test_vectors/") for name in set(found) - FILES)
    sums = dict(line.split("  ", 1)[::-1] for line in found.pop("SHA256SUMS").decode().splitlines())
    assert sums == {name: hashlib.sha256(content).hexdigest() for name, content in found.items()}
    assert sums["model.tflite"] == bundle.evaluation.artefact_sha256


def test_its_card_and_its_json_have_the_risks_of_the_report(bundle: Bundle, trained: RunFolder) -> None:
    found = list_risks(RunView.load(trained), bundle.evaluation)
    assert list_warnings(found), "a class of this search has few validation images"
    card = (bundle.path / "model_card.md").read_text(encoding="utf-8")
    assert card.count("> **Warning, ") == len(list_warnings(found))
    assert all(escape_markdown(risk.text) in card for risk in found)
    document = json.loads((bundle.path / "bundle.json").read_text(encoding="utf-8"))
    assert document["risks"] == [{"name": risk.name, "level": risk.level, "text": risk.text} for risk in found]


def test_copies_between_the_parts_stand_in_the_card_and_the_bundle(copied: RunFolder, tmp_path: Path) -> None:
    dataset = json.loads((copied.path / "dataset.json").read_text())
    copied.write("dataset.json", json.dumps({**dataset, "copies": {"validation": 2, "holdout": 3}}))
    copied.reseal("dataset.json")
    made = bundles.export_form(copied, "float32", tmp_path / "b").path
    found = json.loads((made / "bundle.json").read_text())["risks"]
    (risk,) = (row for row in found if row["name"] == "Copies in your split")
    assert risk["level"] == "high"
    assert risk["text"].startswith("2 of ")
    assert escape_markdown(risk["text"]) in (made / "model_card.md").read_text(encoding="utf-8")


def test_the_checker_notices_a_model_that_answers_otherwise(bundle: Bundle, tmp_path: Path) -> None:
    """Another model of the same classes, with sums that fit it: only the answers tell."""

    def turn(row: dict[str, Any]) -> None:
        row["probabilities"] = row["probabilities"][::-1]
        row["label"] = len(row["probabilities"]) - 1 - row["label"]

    assert "WRONG: 00.rgb: label" in bundles.checked_otherwise(bundle, tmp_path, turn)


@pytest.mark.parametrize("file", ["labels.txt", "model_card.md"])
def test_the_checker_names_a_changed_or_missing_file(own: Path, file: str) -> None:
    content, missing = bytearray((own / file).read_bytes()), file.endswith(".md")
    content[len(content) // 2] ^= 1
    (own / file).unlink()
    if not missing:
        (own / file).write_bytes(content)
    code, said = bundles.ran(own / "check.py")
    assert code == 1
    assert f"WRONG: {file} {'is missing' if missing else 'was changed'}" in said


def test_the_python_snippet_answers_alike(bundle: Bundle, many_images: list[bundles.Pixels], tmp_path: Path) -> None:
    """Pictures of the model's own size need no resizing, so that the values must be the same."""
    chosen = many_images[::10]
    for place, pixels in enumerate(chosen):
        Image.fromarray(pixels).save(tmp_path / f"{place}.png")
    names = [f"{place}.png" for place in range(len(chosen))]
    done = bundles.started(bundle.path / "python" / "classify.py", *names, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = compute_probabilities(bundle.model, np.stack(chosen))
    for name, row, line in zip(names, rows, done.stdout.splitlines(), strict=True):
        assert line.startswith(f"{name}: {bundle.model.labels[row.index(max(row))]} {100 * max(row):.1f} %")


def test_snippets_carry_what_was_measured_best(bundle: Bundle) -> None:
    threads = bundle.evaluation.configuration.target.threads
    kotlin = (bundle.path / "android/Classifier.kt").read_text()
    assert f"Options(Accelerator.CPU)\n        options.cpuOptions = CompiledModel.CpuOptions({threads}," in kotlin
    assert f'"com.google.ai.edge.litert:litert:{version("ai-edge-litert")}"' in kotlin  # the runtime that was measured
    older = (bundle.path / "android/InterpreterNetwork.kt").read_text()
    assert f"setNumThreads({threads}).setUseXNNPACK(true)" in older
    swift = (bundle.path / "ios/Classifier.swift").read_text()
    assert f"options.threadCount = {threads}" in swift
    assert "isXNNPackEnabled = true" in swift
    assert f"THREADS = {threads}" in (bundle.path / "python/classify.py").read_text()
    assert f"--num_threads={threads}" in (bundle.path / "README.md").read_text()


def test_of_the_pick_only_the_platforms_asked_for_are_written_by_default(trained: RunFolder, tmp_path: Path) -> None:
    made = export(trained.path, tmp_path / "b", targets=("ios",), web=False)
    assert made.evaluation == LoadedRun.load(trained.path).decision.pick
    assert json.loads((made.path / "bundle.json").read_text(encoding="utf-8"))["is_the_pick"] is True
    assert "ios/Classifier.swift" in made.files
    assert not any(name.startswith(("android", "python", "edgetpu", "web")) for name in made.files)
    with pytest.raises(UsageError, match="targets: unknown 'andriod' .did you mean 'android'"):
        export(trained.path, tmp_path / "other", targets=("andriod",))


def test_the_edge_tpu_gets_the_integer_file_and_takes_no_float_model(trained: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fully quantized models only"):
        bundles.export_form(trained, "float16", tmp_path / "b", targets=("edgetpu",))
    assert not (tmp_path / "b").exists()
    made = bundles.export_form(trained, "int8", tmp_path / "b", targets=("edgetpu",))
    bundles.output_of(made.path / "check.py")
    measured = (made.path / "model_measured.tflite").read_bytes()
    assert hashlib.sha256(measured).hexdigest() == made.evaluation.artefact_sha256
    text = (made.path / "edgetpu" / "classify_edgetpu.py").read_text()
    assert "edgetpu_compiler --show_operations model_measured.tflite" in text
    compile(text, "classify_edgetpu.py", "exec")


def test_a_changed_or_gone_artefact_is_refused_and_others_can_be_shipped(copied: RunFolder, tmp_path: Path) -> None:
    path = copied.path / bundles.evaluation_of(copied, "float32").artefact
    content = path.read_bytes()
    path.unlink()
    must_fail(UsageError, r"float32\.tflite is missing", bundles.export_form, copied, "float32", tmp_path / "b")
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    must_fail(UsageError, "has changed since it was measured", bundles.export_form, copied, "float32", tmp_path / "b")
    assert not (tmp_path / "b").exists()
    assert bundles.export_form(copied, "float16", tmp_path / "b").files


def test_random_weights_are_not_shipped_and_an_empty_run_has_none(copied: RunFolder, tmp_path: Path) -> None:
    pick = bundles.evaluation_of(copied, "float32")
    copied.append(replace(pick, card_facts=replace(pick.card_facts, weights="")))
    must_fail(UsageError, "measured without its weights", bundles.export_form, copied, "float32", tmp_path / "b")
    copied.evaluations_file.unlink()
    must_fail(UsageError, "no candidate to ship", export, copied.path, tmp_path / "b")


def test_hostile_labels_do_no_harm_there(copied: RunFolder, many_images: list[bundles.Pixels], tmp_path: Path) -> None:
    labels = ('<script>alert(1)</script>, "a", b', "two\nlines\u202e\x1b[31m", "מתכת " * 60)
    pick = bundles.evaluation_of(copied, "float32")
    content = Metadata("x", labels, (127.5,), (127.5,)).write_into((copied.path / pick.artefact).read_bytes())
    bundles.replace_artefact(copied, pick, content, ImageAnswers(per_class_recall=dict.fromkeys(labels, 0.5)))
    made = export(copied.path, tmp_path / "b", pick=pick.configuration.key)
    lines = (made.path / "labels.txt").read_text(encoding="utf-8").split("\n")
    assert lines == [labels[0], "two lines\u202e\x1b[31m", labels[2], ""]
    card = (made.path / "model_card.md").read_text(encoding="utf-8")
    assert "<script" not in card
    assert "\u202e" not in card
    assert "\x1b" not in card
    assert json.loads((made.path / "bundle.json").read_text(encoding="utf-8"))["labels"] == list(made.model.labels)
    assert {label for label, _ in bundles.mediapipe_answers(made.model.content, many_images[:5])} <= set(lines)
    for snippet in ("android/Classifier.kt", "ios/Classifier.swift", "python/classify.py"):
        assert "alert(1)" not in (made.path / snippet).read_text(encoding="utf-8")
    bundles.output_of(made.path / "check.py")


@pytest.mark.parametrize("accelerator", ["cpu", "gpu", "npu"])
def test_snippets_use_the_accelerator_or_say_that_they_do_not(bundle: Bundle, accelerator: str) -> None:
    configuration = bundle.evaluation.configuration
    target = replace(configuration.target, device="phone", accelerator=accelerator)
    evaluation = replace(bundle.evaluation, configuration=replace(configuration, target=target))
    kotlin, swift, python = (render_code(SHIPPING, name, bundle.model, evaluation)[1] for name in PLATFORMS)
    assert f"Options(Accelerator.{accelerator.upper()}" in kotlin
    assert ("litert-gpu:" in kotlin) == ("MetalDelegate()" in swift) == (accelerator == "gpu")
    assert ("BuiltinNpuAcceleratorProvider(context)" in kotlin) == (accelerator == "npu")
    assert "This code runs on the CPU" not in kotlin
    assert ("This code runs on the CPU" in python) == (accelerator != "cpu")
    compile(python, "classify.py", "exec")


def test_another_folder_is_never_replaced(trained: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("x")
    for force in (False, True):
        must_fail(UsageError, "is not a bundle of advisor", export, trained.path, tmp_path / "precious", force=force)
    assert (tmp_path / "precious" / "thesis.txt").read_text() == "x"


def test_only_force_replaces_a_bundle_and_bytes_stay_the_same(bundle: Bundle, trained: RunFolder, own: Path) -> None:
    (own / "model.tflite").write_bytes(b"older")
    must_fail(UsageError, "already holds a bundle", export, trained.path, own)
    bundles.export_form(trained, "float16", own, force=True)
    assert contents(own) == contents(bundle.path)


def test_what_the_runtime_prints_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    def answering(_model: ShippedModel, images: Any) -> tuple[float, list[tuple[int, dict[str, Any]]]]:
        os.write(2, b"INFO: Created a delegate\n")
        return 0.1, [(0, {"label": int(images[0]().max() > 0)})]

    model = ShippedModel(b"", ("cat", "dog"), 0.0, 1.0, 8, (), Metadata("", (), (), ()))
    made = vector_files(model, answering)
    document = json.loads(made["test_vectors/vectors.json"])
    assert (document["tolerance"], document["vectors"]) == (0.1, [{"input": "00.rgb", "label": 1}])
    assert len(made["test_vectors/00.rgb"]) == 8 * 8 * 3
    assert capfd.readouterr().err == ""


def test_every_device_that_runs_the_file_has_its_own_line() -> None:
    ((device, own),) = devices_of(evaluation("one", threads=4)).items()
    assert (device, own.threads, own.provenance) == ("host", 4, "measured")
    assert "--num_threads=4 --use_xnnpack=true" in benchmark_lines(own)[-1]
    figures = DeviceFigures(accelerator="npu", runtime="tflite", latency_ms=2.0, provenance="predicted")
    devices = {"phone": figures, "stick": replace(figures, reason="it takes int8 alone")}
    found = devices_of(replace(evaluation("one"), device_figures=devices))
    assert list(found) == ["host", "phone"]
    assert "--use_nnapi=true" in benchmark_lines(found["phone"])[-1]
