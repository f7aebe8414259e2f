"""A user's own model becomes a card, or is refused with the reason and nothing is kept."""

import io
import json
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from advisor import catalog
from advisor.catalog import Catalogue, ImportedModel, build_model, convert, fetch_weights, read_published_labels
from advisor.catalog._user_models import import_model
from advisor.catalog._user_models.import_model import ModelDescription, add, inspect, list_missing
from advisor.catalog._user_models.keras_models import check_keras, check_saved_model, fix_side
from advisor.core import StageError, UsageError, WeightsError
from advisor.isolation import CallLimits
from advisor.store import FetchOptions
from advisor.tflite import read, to_float16
from tests.builders import must_fail, write_file
from tests.catalog.user_models.models import CLASSES, SIZE, labels_file, network
from tests.measurement.small_models import Builder
from tests.processes import has_ended
from tests.tables import with_cases

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("own_folders", "in_process")]
Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    build = Builder()
    pooled = build.mean(build.depthwise(build.convolution(build.input(SIZE), 8, 3, 2)))
    (folder / "net.tflite").write_bytes(build.finish({"image": 0}, {"output": build.head(pooled, CLASSES)}))
    labels_file(folder)
    return folder


@pytest.fixture(scope="module")
def keras_file(models: Path) -> Path:
    """A Keras network of the same layers, beside it."""
    network().save(models / "net.keras")
    return models / "net.keras"


def given(models: Path, **more: Any) -> ModelDescription:
    return ModelDescription(labels=str(models / "labels.txt"), mean=(127.5,), std=(127.5,), **more)


def brought(file: Path, said: ModelDescription, into: Path | None = None) -> ImportedModel:
    with inspect(file) as inspected:
        return add(inspected, said, into)


@pytest.mark.parametrize(
    ("name", "where"),
    [("net.keras", "in_process"), pytest.param("net", "in_child", marks=pytest.mark.slow), ("net.tflite", "in_child")],
)
def test_a_model_becomes_a_card_that_every_search_finds(
    models: Path, keras_file: Path, request: pytest.FixtureRequest, name: str, where: str
) -> None:
    request.getfixturevalue(where)
    if name == "net":
        network().export(models / "net", verbose=False)
    labels = models / "labels.txt"
    added = catalog.add(models / name, labels=labels, mean=[127.5], std=[127.5], top1=61.5, licence="MIT")
    card = catalog.show("net")
    assert card == added.card
    assert [row.card.name for row in catalog.list_cards() if row.here] == ["net"]
    assert (card.input_size, card.classes, card.family, card.licence) == (SIZE, CLASSES, "own", "MIT")
    assert (card.top1(), added.features, card.params) == (61.5, 8, 8 * 27 + 8 + 8 * 9 + 8 + 8 * CLASSES + CLASSES)
    assert [photograph for photograph, _, _ in added.seen] == ["a cat", "a cup of coffee", "a rocket"]
    assert read_published_labels(card) == ("glass", "paper", "métal", "plastic", "trash")


@pytest.mark.parametrize("edit", [bytes, to_float16], ids=["float32", "float16"])
def test_the_cards_master_is_the_model_in_float_and_its_network_that_can_be_trained_computes_the_same(
    models: Path, tmp_path: Path, edit: Callable[[bytes], bytes]
) -> None:
    file = write_file(tmp_path / "net.tflite", edit((models / "net.tflite").read_bytes()))
    card = brought(file, given(models)).card
    kept = fetch_weights(card, FetchOptions(offline=True))
    assert {tensor.dtype for tensor in read(kept.path.read_bytes()).tensors} <= {"float32", "int32"}
    convert(card, kept, tmp_path / "master.tflite")
    photo = np.random.default_rng(1).normal(size=(1, SIZE, SIZE, 3)).astype(np.float32)
    outputs = catalog.run((tmp_path / "master.tflite").read_bytes(), photo)
    assert outputs["probabilities"] == pytest.approx(catalog.run(file.read_bytes(), photo)["output"], abs=1e-6)
    assert outputs["features"].shape == (1, 8)
    backbone = build_model(card, kept)
    assert np.asarray(backbone(photo, training=False)["features"]) == pytest.approx(outputs["features"], abs=1e-5)
    assert backbone.trainable_weights


def test_metadata_in_the_file_needs_no_flags(models: Path, tmp_path: Path) -> None:
    first = brought(models / "net.tflite", given(models, licence="MIT"))
    again = tmp_path / "again.tflite"
    again.write_bytes(first.model.read_bytes())
    with inspect(again) as inspected:
        assert list_missing(inspected, ModelDescription()) == ()
        card = add(inspected, ModelDescription()).card
    assert (card.name, card.licence, card.preprocessing) == ("again", "MIT", first.card.preprocessing)


def test_what_nobody_says_is_asked_for(models: Path) -> None:
    with inspect(models / "net.tflite") as inspected:
        assert list_missing(inspected, ModelDescription(mean=(0.0,))) == ("labels", "std")
        with pytest.raises(UsageError, match="does not say its labels, std: give --labels and --std"):
            add(inspected, ModelDescription(mean=(0.0,)))
    assert "net" not in Catalogue.load()


@with_cases
def test_what_is_said_wrongly_is_refused_whole(models: Path, tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    correct = {"labels": str(models / "labels.txt"), "mean": (0.0,), "std": (1.0,)}
    with pytest.raises(UsageError, match=said), inspect(models / "net.tflite") as inspected:
        add(inspected, ModelDescription(**{**correct, **wrong}))
    left = [path for path in (tmp_path / "config").rglob("*") if path.is_file()]
    assert left == []


def test_a_teams_file_keeps_its_comments(models: Path, tmp_path: Path) -> None:
    team = tmp_path / "team.yaml"
    brought(models / "net.tflite", given(models, name="first"), team)
    team.write_text("# ours alone\n" + team.read_text(encoding="utf-8"), encoding="utf-8")
    brought(models / "net.tflite", given(models, name="second"), team)
    text = team.read_text(encoding="utf-8")
    assert text.startswith("# ours alone\n")
    assert [card.name for card in Catalogue.load([team]).values()][-2:] == ["first", "second"]
    assert "first" not in Catalogue.load()


def test_a_catalogue_that_cannot_take_a_card_is_left_as_it_was(models: Path, tmp_path: Path) -> None:
    team = tmp_path / "team.yaml"
    team.write_text("cards: []\nfamily: ours\n", encoding="utf-8")
    with pytest.raises(UsageError, match="team.yaml"), inspect(models / "net.tflite") as inspected:
        add(inspected, given(models), team)
    assert team.read_text(encoding="utf-8") == "cards: []\nfamily: ours\n"
    assert not (tmp_path / "models").exists()


def test_a_file_that_changed_or_went_after_it_was_added_is_not_used(models: Path) -> None:
    added = brought(models / "net.tflite", given(models))
    added.model.write_bytes((models / "net.tflite").read_bytes())
    must_fail(WeightsError, "sha256", fetch_weights, added.card, FetchOptions(offline=True))
    added.model.unlink()
    must_fail(WeightsError, "there is no file", fetch_weights, added.card, FetchOptions(offline=True))
    must_fail(StageError, "the file is not available", convert, added.card, None, models / "never.tflite")


@with_cases
def test_the_size_is_said_or_refused(shape: tuple[int | None, ...], size: int | None, expected: int | str) -> None:
    with pytest.raises(UsageError, match=expected) if isinstance(expected, str) else nullcontext():
        assert fix_side(shape, size, "net") == (expected, expected, 3)


def test_a_keras_file_of_open_size_with_logits_becomes_a_classifier(tmp_path: Path) -> None:
    import keras

    network(size=None, activation=None).save(tmp_path / "net.keras")
    with inspect(tmp_path / "net.keras", 48) as inspected:
        facts, prepared = inspected.facts, inspected.prepared.read_bytes()
    assert (facts.input_size, facts.classes, facts.features) == (48, CLASSES, 8)
    photo = np.random.default_rng(2).normal(size=(1, 48, 48, 3)).astype(np.float32)
    logits = np.asarray(keras.saving.load_model(tmp_path / "net.keras")(photo), np.float64)
    expected = np.exp(logits) / np.exp(logits).sum()
    assert catalog.run(prepared, photo)["probabilities"] == pytest.approx(expected, abs=1e-6)


def spoilt(given: Path, target: Path, change: Change) -> Path:
    with zipfile.ZipFile(given) as source, zipfile.ZipFile(target, "w") as changed:
        for name in source.namelist():
            content = source.read(name)
            if name == "config.json":
                config = json.loads(content)
                change(config)
                content = json.dumps(config).encode()
            changed.writestr(name, content)
    return target


@with_cases
def test_a_layer_with_own_code_is_refused(keras_file: Path, tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    def spoil(config: dict[str, Any]) -> None:
        config["config"]["layers"][1].update(changes)

    must_fail(UsageError, said, check_keras, spoilt(keras_file, tmp_path / "spoilt.keras", spoil))


@pytest.mark.parametrize("member", ["../escape.py", "run.py", "/etc/cron.d/x"])
def test_an_archive_with_other_members_is_refused(keras_file: Path, tmp_path: Path, member: str) -> None:
    target = spoilt(keras_file, tmp_path / "more.keras", lambda _: None)
    with zipfile.ZipFile(target, "a") as archive:
        archive.writestr(member, b"x")
    must_fail(UsageError, "which no .keras file does", check_keras, target)


def archive(configuration: str) -> bytearray:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("config.json", configuration)
    return bytearray(out.getvalue())


def damaged() -> bytearray:
    content = archive(json.dumps(list(range(4000))))
    content[60:200] = b"\xff" * 140
    return content


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (archive("[" * 200_000 + "]" * 200_000), ""),
        (damaged(), ": Error -3 while decompressing"),
        (b"", ""),
        (b"PK\x03\x04 and nothing more", ""),
    ],
    ids=["nested", "damaged", "empty", "cut"],
)
def test_what_is_no_keras_file_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "no.keras").write_bytes(content)
    must_fail(UsageError, f"not a usable .keras file{said}", check_keras, tmp_path / "no.keras")


def test_a_file_of_another_kind_names_what_is_taken(tmp_path: Path) -> None:
    (tmp_path / "net.bin").write_bytes(b"x")
    with pytest.raises(UsageError, match=r"is none of: a \.keras file, "), inspect(tmp_path / "net.bin"):
        pass
    with pytest.raises(UsageError, match="there is no file"), inspect(tmp_path / "none.keras"):
        pass


def saved_model(folder: Path, more: Callable[[Any], Any]) -> Path:
    """Save a SavedModel that adds ``more(image)`` to its scores."""
    import tensorflow as tf

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((1, SIZE, SIZE, 3), tf.float32)])
        def __call__(self, image: Any) -> Any:
            return tf.nn.softmax(tf.reduce_mean(image, (1, 2)) + more(image))

    model = Model()
    tf.saved_model.save(model, str(folder), signatures={"serving_default": model.__call__})
    return folder


def test_a_folder_without_a_graph_or_with_a_link_out_of_it_is_refused(tmp_path: Path) -> None:
    must_fail(UsageError, r"it has no saved_model\.pb", check_saved_model, tmp_path)
    (tmp_path / "saved_model.pb").touch()
    (tmp_path / "secret").symlink_to("/etc/hostname")
    must_fail(UsageError, "a link out of the folder", check_saved_model, tmp_path)


def test_an_import_ends_at_its_limit_of_memory_and_leaves_nothing(
    keras_file: Path, in_child: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing loads TensorFlow in so little; ``tests/isolation`` ends children that never stop."""
    monkeypatch.setattr(import_model, "CONVERT_LIMITS", CallLimits(memory_bytes=200_000_000))
    said = "the model cannot be used: .*of memory, more than its limit of 200.0 MB"
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    before = {child.pid for child in psutil.Process().children()}  # servers that other tests fork from
    with pytest.raises(UsageError, match=said) as raised, inspect(keras_file):
        pass
    assert "at most" in raised.value.hint
    assert list((tmp_path / "temporary").iterdir()) == []
    left = {child.pid for child in psutil.Process().children()} - before
    assert all(map(has_ended, left))


def test_a_loop_in_a_graph_is_refused_before_it_runs(tmp_path: Path) -> None:
    import tensorflow as tf

    def more(image: Any) -> Any:
        return tf.while_loop(lambda i: i >= 0.0, lambda i: (tf.abs(i),), (tf.reduce_sum(image),))[0]

    saved_model(tmp_path / "loops", more)
    with pytest.raises(UsageError, match="it has 3 graphs and 1 signatures"), inspect(tmp_path / "loops"):
        pass


# The last but one is not TensorFlow's, and the last one is also the name of a function.
@pytest.mark.parametrize("operator", ["SummaryWriter", "TFRecordDatasetV2", "OwnOperator", "ReadFile"])
def test_a_saved_model_may_hold_operators_of_computation_only(tmp_path: Path, operator: str) -> None:
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel()
    graph = model.meta_graphs.add().graph_def
    graph.node.add(op="StatefulPartitionedCall")
    graph.node.add(op="__inference_call_1")
    for name in ("__inference_call_1", "ReadFile"):
        graph.library.function.add().signature.name = name
    (tmp_path / "saved_model.pb").write_bytes(model.SerializeToString())
    check_saved_model(tmp_path)
    graph.library.function[0].node_def.add(op=operator)
    (tmp_path / "saved_model.pb").write_bytes(model.SerializeToString())
    must_fail(UsageError, f"the graph has a {operator}, which runs code or touches files", check_saved_model, tmp_path)
