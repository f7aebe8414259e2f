"""The shipped model, its card, and its code for apps, which grammars of the languages parse."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tree_sitter
import tree_sitter_kotlin
import tree_sitter_swift

from advisor.core import Evaluation, Provenance, Quantity, ShippedThresholds, Status, UsageError, list_choosable
from advisor.datasets import DEMO_NOTE, InputSpec
from advisor.engine import LoadedRun
from advisor.measurement import predict_pixels
from advisor.reporting import Risk, ShippedModel, Shipping, list_choices
from advisor.reporting._bundle.bundle import choose_candidate
from advisor.reporting._bundle.documents import interpreter_code, model_card, render_code
from advisor.reporting._risk import Level
from advisor.store import RunFolder, sha256_file
from advisor.tasks import TASKS
from advisor.tasks.classification import CLASSIFICATION
from advisor.tasks.classification._answers import compute_probabilities
from advisor.tflite import Metadata, select_output
from tests.builders import evaluation, must_fail
from tests.makers.bundles import FORMS, Pixels, evaluation_of, export_form, mediapipe_answers
from tests.makers.kotlin import compile_kotlin
from tests.run_folders import candidates, images, write_run
from tests.tables import read_table

SCORE_TOLERANCE = 0.03
ROUNDED_TOLERANCE = 0.05
"""Of ``dynamic_int8``: each runtime rounds the activations of every image in its own kernels, and the head enlarges
the difference."""

SAID = Metadata("", ("glass", "paper"), (127.5,), (127.5,))
MODEL = ShippedModel(b"", ("glass", "paper"), 127.5, 127.5, 224, (), SAID)
TEXTS = read_table(__file__, "texts.yaml")
WORDS, ORDER = TEXTS["words_of_trainings"], TEXTS["reading_of_images"]
LANGUAGES = {"android": tree_sitter_kotlin, "ios": tree_sitter_swift}
PARSED = replace(MODEL, thresholds=ShippedThresholds(0.5))
CODE = [(shipping, platform) for shipping in (task.shipping() for task in TASKS) for platform in LANGUAGES]
FILES = {"android": "android_api.kt", "ios": "ios_api.swift"}
API = {platform: Path(__file__).with_name(name).read_text(encoding="utf-8") for platform, name in FILES.items()}
"""What the code of apps calls, as published; it says where."""
DECLARED = {
    "android": r"(?:fun|va[lr]|class|interface|object) (\w+)|([A-Z]\w+)",
    "ios": r"(?:public|open) (?:(?:static|class|final) )*(?:func|var|let|class) (\w+)|([A-Z]\w+)",
}
OBJECTS = (
    r"Accelerator|Bitmap|BitmapFactory|Config|CompiledModel|Environment|Options|assets|context|drawing|format|image|"
    r"inputs\[0\]|interpreter|large|model|options|scaled|stored|upright|white"
)
ACCELERATORS = ("cpu", "gpu", "npu")
THRESHOLDS = (
    ShippedThresholds(),
    ShippedThresholds(0.5, {"glass": 0.7, "paper": 0.000125}),
    ShippedThresholds(None, {"glass": 0.7}, {"paper": 0.01}),
    ShippedThresholds(recall={"glass": 0.25, "paper": 0.01}),
)


def agree(model: ShippedModel, images: list[Pixels], tolerance: float = SCORE_TOLERANCE) -> None:
    """MediaPipe must put the same label first as LiteRT does."""
    own = np.array(compute_probabilities(model, np.stack(images)))
    theirs = mediapipe_answers(model.content, images)
    assert [label for label, _ in theirs] == [model.labels[place] for place in own.argmax(axis=1)]
    assert np.abs(own.max(axis=1) - [score for _, score in theirs]).max() < tolerance


@pytest.mark.parametrize("form", FORMS)
def test_mediapipe_takes_every_form(trained: RunFolder, many_images: list[Pixels], form: str) -> None:
    evaluation = evaluation_of(trained, form)
    tolerance = ROUNDED_TOLERANCE if form == "dynamic_int8" else SCORE_TOLERANCE
    agree(ShippedModel.prepare((trained.path / evaluation.artefact).read_bytes(), form), many_images[::5], tolerance)


@pytest.mark.parametrize("form", FORMS)
def test_a_bundle_ships_what_is_told(trained: RunFolder, many_images: list[Pixels], tmp_path: Path, form: str) -> None:
    """The file that was timed and scored; or one with the same answers, a named change, and that file beside it."""
    made = export_form(trained, form, tmp_path / "bundle")
    measured, shipped = trained.path / made.evaluation.artefact, made.path / "model.tflite"
    stated = json.loads((made.path / "bundle.json").read_text(encoding="utf-8"))
    assert stated["measured_sha256"] == sha256_file(measured) == made.evaluation.artefact_sha256
    assert stated["model_sha256"] == sha256_file(shipped)
    changed = shipped.read_bytes() != measured.read_bytes()
    assert changed is bool(stated["edits"]) is made.model.converts is (form == "int8")
    if changed:
        assert "float32 instead of int8" in stated["edits"][0]
    beside, card = made.path / "model_measured.tflite", (made.path / "model_card.md").read_text(encoding="utf-8")
    assert beside.read_bytes() == measured.read_bytes() if changed else not beside.exists()
    assert changed is all(edit in card for edit in (*stated["edits"], "The change takes more time"))
    images, spec = np.stack(many_images[::5]), InputSpec(made.model.size, (made.model.mean,) * 3, (made.model.std,) * 3)
    np.testing.assert_array_equal(*(predict_pixels(file, images, spec) for file in (shipped, measured)))


def test_the_report_says_how_a_bundle_differs_from_the_measured_file(trained: RunFolder) -> None:
    said = re.sub("<[^>]*>", "", (trained.path / "report.html").read_text(encoding="utf-8"))
    assert "bundle.json names each change, and model_measured.tflite is the file without it." in " ".join(said.split())


@pytest.mark.parametrize("form", ["float32", "int8"])
def test_normalization_by_channel(trained: RunFolder, many_images: list[Pixels], tmp_path: Path, form: str) -> None:
    artefact = (trained.path / evaluation_of(trained, form).artefact).read_bytes()
    mean, std = (123.0, 117.0, 104.0), (130.0, 120.0, 125.0)
    described = Metadata("x", ("a", "b", "c"), mean, std).write_into(artefact)
    model = ShippedModel.prepare(described, form)
    assert (model.mean, model.std) == (0.0, 1.0)
    assert "happens inside the model" in model.edits[-1]
    images = many_images[::5]
    (tmp_path / "measured.tflite").write_bytes(described)
    measured = predict_pixels(tmp_path / "measured.tflite", images, InputSpec(model.size, mean, std))
    own = np.array(compute_probabilities(model, np.stack(images)))
    assert np.abs(own - measured).max() < SCORE_TOLERANCE
    assert own.argmax(axis=1).tolist() == measured.argmax(axis=1).tolist()
    agree(model, images)


def test_a_model_that_does_not_describe_itself_is_refused(trained: RunFolder) -> None:
    artefact = (trained.path / evaluation_of(trained, "float32").artefact).read_bytes()
    assert Metadata.read(artefact) is not None
    bare = select_output(artefact, "probabilities")
    assert Metadata.read(bare) is None
    must_fail(UsageError, "has no metadata with labels", ShippedModel.prepare, bare, "bare")
    half = artefact[: len(artefact) // 2]
    must_fail(UsageError, r"half\.tflite is not a usable", ShippedModel.prepare, half, "half.tflite")


def stored(tmp_path: Path, *more: Evaluation) -> LoadedRun:
    return LoadedRun.load(write_run(tmp_path, [*candidates(), *more]).path)


def test_one_artefact_is_one_choice_on_its_best_threads(tmp_path: Path) -> None:
    run = stored(tmp_path, evaluation("fast", "int8", 2, accuracy=84, half_width=1, latency=3, size=5e6))
    assert [e.configuration.card for e in list_choices(run.decision)] == ["best", "fast", "small"]
    assert choose_candidate(run, None) == choose_candidate(run, "1") == run.decision.pick
    assert choose_candidate(run, "2").configuration.target.threads == 2


def test_a_key_chooses_what_is_not_on_the_front_and_what_failed_has_nothing_to_ship(tmp_path: Path) -> None:
    poor = evaluation("poor", accuracy=10, half_width=1, latency=40, size=9e6)
    assert choose_candidate(stored(tmp_path, poor), poor.configuration.key).configuration == poor.configuration
    failed = replace(evaluation("bad"), status=Status.FAILED, reason="converter crashed")
    must_fail(UsageError, "converter crashed", choose_candidate, stored(tmp_path, failed), failed.configuration.key)


@pytest.mark.parametrize(
    ("pick", "message"),
    [
        ("0", "the numbers are 1 to 3"),
        ("9" * 5000, "the run has no candidate"),
        ("smal/head/int8@host:cpux1", "did you mean 'small/head/int8@host:cpux1'"),
    ],
)
def test_a_candidate_that_is_none_is_refused(tmp_path: Path, pick: str, message: str) -> None:
    must_fail(UsageError, message, choose_candidate, stored(tmp_path), pick)


@pytest.mark.parametrize("training", list_choosable())
def test_the_card_names_the_training(tmp_path: Path, training: str) -> None:
    row = evaluation("net", "int8")
    row = replace(row, configuration=replace(row.configuration, training=training))
    card = model_card(LoadedRun.load(write_run(tmp_path, [row]).path), row, MODEL, ())
    assert f"net, {WORDS[training]},\ncompressed as int8.\nSelected by advisor in run" in card


def test_the_card_has_both_accuracies_and_warns_beside_the_reason(tmp_path: Path) -> None:
    row = replace(
        evaluation("net", "int8", accuracy=90.0),
        holdout_accuracy=Quantity(89.0, "%", Provenance.MEASURED, 86.0, 92.0, n=500),
        new_conditions=Quantity(61.5, "%", Provenance.ESTIMATED, 50.0, 73.0),
    )
    run = LoadedRun.load(write_run(tmp_path, [row], dataset=images({"all": 60}) | {"notes": [DEMO_NOTE]}).path)
    found = (
        Risk("New conditions", Level.HIGH, "Expect about 61.5 % on images of another place or day, not *89.0 %*."),
        Risk("Compression", Level.LOW, "int8 loses 0.0 points."),
    )
    card = model_card(run, row, MODEL, found)
    assert "| top-1 on the hold-out (images like these) | 89.0 % | 86.0 % to 92.0 % | 500 |" in card
    assert "| top-1 in new conditions (another visit, camera or day) | 61.5 % | 50.0 % to 73.0 % |" in card
    warning = r"> **Warning, new conditions**: Expect about 61.5 % on images of another place or day, not \*89.0 %\*."
    assert card.index(warning) < card.index("## Intended use")
    assert "## Risks\n\n- low: Compression: int8 loses 0.0 points.\n" in card
    assert (card.count("Expect about"), card.count(DEMO_NOTE)) == (1, 1)
    assert "\nOn the machine of the search with " in card


@pytest.mark.parametrize(("accelerator", "arm64"), [("cpu", "8.2 MB"), ("gpu", "11.3 MB")])
def test_the_card_says_by_how_much_an_app_grows_and_all_licences(tmp_path: Path, accelerator: str, arm64: str) -> None:
    row = with_accelerator(evaluation("net", "int8"), accelerator)
    run = LoadedRun.load(write_run(tmp_path, [row]).path)
    card = " ".join(model_card(run, row, replace(MODEL, content=bytes(2_000_000)), ()).split())
    assert "The model has 2.0 MB. With LiteRT, an Android app grows by" in card
    assert f"by {arm64} for arm64-v8a, 5.9 MB for armeabi-v7a, 10.2 MB for x86_64." in card
    assert "The sizes of LiteRT are those of 2.2.0, the latest one that was measured." in card
    assert "LiteRT, which runs the file, has the licence Apache-2.0." in card


def with_accelerator(row: Evaluation, accelerator: str) -> Evaluation:
    target = replace(row.configuration.target, accelerator=accelerator)
    return replace(row, configuration=replace(row.configuration, target=target))


def faults(node: Any) -> Iterator[str]:
    """What the grammar does not take, with its line."""
    if node.type == "ERROR" or node.is_missing:
        yield f"line {node.start_point[0] + 1}: {node.text.decode()[:80]!r}"
    for child in node.children if node.has_error else ():
        yield from faults(child)


def parsed(platform: str, source: str) -> list[str]:
    parser = tree_sitter.Parser(tree_sitter.Language(LANGUAGES[platform].language()))
    return list(faults(parser.parse(source.encode()).root_node))


def written(shipping: Shipping, platform: str, accelerator: str, model: ShippedModel = PARSED) -> str:
    return render_code(shipping, platform, model, with_accelerator(evaluation("mobilenet_v2_1.0_224"), accelerator))[1]


@pytest.mark.parametrize(("shipping", "platform"), CODE)
def test_every_variant_is_valid_in_its_language_and_a_fault_would_be_found(shipping: Shipping, platform: str) -> None:
    for accelerator in ACCELERATORS:
        source = written(shipping, platform, accelerator)
        assert parsed(platform, source) == []
        copied, read, white = ORDER[platform]
        assert source.index(copied) < source.index(read)
        assert white in source, "transparent pixels are white, as in the search"
    assert parsed(platform, source.replace("image)", "image))", 1))


def android_code(shipping: Shipping) -> Iterator[str]:
    """The code of a task for each accelerator, each in a package of its own, with that for the older Interpreter."""
    # It is another ``Network`` of the first one's package.
    yield of_package(interpreter_code(shipping, evaluation("mobilenet_v2_1.0_224"))[1], ACCELERATORS[0])
    yield from (of_package(written(shipping, "android", accelerator), accelerator) for accelerator in ACCELERATORS)


def of_package(source: str, name: str) -> str:
    return re.sub(r"(?m)^package .*", rf"\g<0>.{name}", source)


def classifier(platform: str, thresholds: ShippedThresholds) -> str:
    shipping, model = CLASSIFICATION.shipping(), replace(PARSED, thresholds=thresholds)
    return render_code(shipping, platform, model, evaluation("mobilenet_v2_1.0_224"))[1]


def unknown_names(platform: str, source: str) -> set[str]:
    """Names that the code imports of Android and LiteRT, or reads of a system's objects, and that are not published."""
    declared = set(re.findall(DECLARED[platform], API[platform]))
    code = re.sub(r'"[^"\n]*"|//.*|/\*\*.*?\*/', "", source)
    called = set(re.findall(rf"(?<!\w)(?:{OBJECTS}|import (?:android|com\.google|org\.tensorflow)[.\w]*)\.(\w+)", code))
    return called - {name for names in declared for name in names}


@pytest.mark.parametrize("shipping", [task.shipping() for task in TASKS])
def test_code_calls_what_is_published(shipping: Shipping) -> None:
    for source in android_code(shipping):
        assert unknown_names("android", source) == set()
    source = written(shipping, "android", "npu")
    for name in ("writeFloat", "createInputBuffers", "BuiltinNpuAcceleratorProvider", "NPU"):
        assert unknown_names("android", source.replace(name, f"{name}s")) == {f"{name}s"}
    source = written(shipping, "ios", "gpu")
    assert unknown_names("ios", source) == set()
    for name in ("threadCount", "allocateTensors", "bitsPerComponent", "setFill"):
        assert unknown_names("ios", re.sub(rf"\.{name}\b", f".{name}s", source)) == {f"{name}s"}


@pytest.mark.integration
def test_code_for_android_compiles_without_a_remark(kotlin_home: Path, tmp_path: Path) -> None:
    """Of every task; of classifiers with each kind of threshold, which takes turns with the accelerators."""
    code = [written(task.shipping(), "android", "cpu") for task in TASKS if task is not CLASSIFICATION]
    shipping, models = CLASSIFICATION.shipping(), [replace(PARSED, thresholds=kind) for kind in THRESHOLDS]
    code.append(of_package(interpreter_code(shipping, evaluation("net"))[1], "kind0"))
    for number, (model, accelerator) in enumerate(zip(models, cycle(ACCELERATORS), strict=False)):
        code.append(of_package(written(shipping, "android", accelerator, model), f"kind{number}"))
    code += [part.partition("\n")[2] for part in API["android"].split("//// ")[1:]]
    for number, source in enumerate(code):
        (tmp_path / f"{number}.kt").write_text(source, encoding="utf-8")
    compile_kotlin(kotlin_home, sorted(tmp_path.glob("*.kt")), tmp_path / "classes")


@pytest.mark.parametrize("platform", LANGUAGES)
@pytest.mark.parametrize("thresholds", THRESHOLDS)
def test_thresholds_of_classes_are_valid_too(platform: str, thresholds: ShippedThresholds) -> None:
    source = classifier(platform, thresholds)
    assert parsed(platform, source) == []
    assert ("leastof" in source.lower().replace("_", "")) == bool(thresholds.by_class)
    assert ("mayshow" in source.lower().replace("_", "")) == bool(thresholds.recall)
