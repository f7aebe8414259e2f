import io
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given, strategies as st

from advisor.core import StageError, UsageError
from advisor.tflite import Metadata, one_line, read, select_output
from tests.builders import CHARACTERS, must_fail, present
from tests.tables import with_cases
from tests.tflite.graphs import Graph, tiny_features

HOSTILE = ("a, b", 'say "x"', "<script>alert(1)</script>", "Größe 日本 🐈", "two\nlines", "x" * 300, "", "  ' ; \\ ")
STORED = (*HOSTILE[:4], "two lines", *HOSTILE[5:])
MEAN = (123.675, 116.28, 103.53)
STD = (58.395, 57.12, 57.375)
SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "models"


def tiny_classifier_of_images(classes: int) -> bytes:
    graph, image = Graph.with_image((1, 2, 2, 3))
    out = graph.added(schema.BuiltinOperator.RESHAPE, [image], (1, classes))
    return graph.finish({"image": image}, {"out": out})


def described(
    labels: tuple[str, ...], mean: tuple[float, ...] = (127.5,), std: tuple[float, ...] = (127.5,)
) -> Metadata:
    return Metadata("Birds", labels, mean, std, "Tells birds apart", "The team", "Apache-2.0", "1.2")


def test_what_is_written_is_read_and_the_model_itself_is_unchanged() -> None:
    data = tiny_classifier_of_images(len(HOSTILE))
    written = described(HOSTILE).write_into(data)
    assert Metadata.read(written) == described(STORED)
    assert read(written).subgraphs == read(data).subgraphs


@pytest.mark.parametrize("by_class", [(), (0.5, 0.875)])
def test_a_threshold_and_scores_of_single_classes_are_read_back(by_class: tuple[float, ...]) -> None:
    metadata = replace(described(("a", "b")), threshold=0.5, by_class=by_class)
    assert Metadata.read(metadata.write_into(tiny_classifier_of_images(2))) == metadata


def test_text_that_is_no_unicode_is_written_with_a_mark_in_its_place() -> None:
    """Names of folders may hold any bytes, which Python hands on as lone surrogates."""
    metadata = Metadata("caf\udce9", ("caf\udce9",), (0.0,), (1.0,))
    found = present(Metadata.read(metadata.write_into(tiny_classifier_of_images(1))))
    assert (found.name, found.labels) == ("caf?", ("caf?",))


def test_the_same_description_gives_the_same_bytes_and_another_replaces_it() -> None:
    data = tiny_classifier_of_images(2)
    first = described(("a", "b")).write_into(data)
    assert described(("a", "b")).write_into(data) == first
    assert described(("a", "b")).write_into(first) == first
    first = described(("a", "b")).write_into(tiny_classifier_of_images(2))
    second = described(("c", "d")).write_into(first)
    found = present(Metadata.read(second))
    assert found.labels == ("c", "d")
    assert len(second) == len(first)
    assert [entry.name for entry in schema.ModelT.InitFromPackedBuf(second).metadata] == [b"TFLITE_METADATA"]


def test_an_edit_of_the_graph_drops_the_description_and_a_file_without_one_says_nothing() -> None:
    data = described(("a", "b")).write_into(tiny_classifier_of_images(2))
    assert Metadata.read(select_output(data, "out")) is None
    assert Metadata.read(tiny_features()) is None


def test_equal_channels_are_written_as_one_number_and_others_kept_apart() -> None:
    for mean, std in (((127.5,), (127.5,)), (MEAN, STD)):
        metadata = described(("a",), mean * (3 // len(mean)), std * (3 // len(std)))
        stored = present(Metadata.read(metadata.write_into(tiny_classifier_of_images(1))))
        assert stored.mean == pytest.approx(mean)
        assert stored.std == pytest.approx(std)


@given(st.lists(st.text(CHARACTERS, max_size=20), min_size=1, max_size=6))
def test_any_labels_survive_one_a_line(labels: list[str]) -> None:
    found = present(Metadata.read(described(tuple(labels)).write_into(tiny_classifier_of_images(len(labels)))))
    assert found.labels == tuple(one_line(label) for label in labels)
    assert all(len(label.splitlines()) <= 1 for label in found.labels)


@with_cases
def test_a_wrong_description_is_refused(labels: list[str], mean: list[float], std: list[float], reason: str) -> None:
    with pytest.raises(StageError, match=reason):
        described(tuple(labels), tuple(mean), tuple(std)).write_into(tiny_classifier_of_images(2))


def test_only_image_classifiers_are_described() -> None:
    metadata = described(("a", "b"))
    must_fail(StageError, "one image input and one output", metadata.write_into, tiny_features(2))


DESCRIBED = described(("a", "b")).write_into(tiny_classifier_of_images(2))


@with_cases
def test_a_missing_file_of_labels_and_one_without_end_are_refused(name: str, size: int, reason: str) -> None:
    with zipfile.ZipFile(io.BytesIO(DESCRIBED)) as archive:
        start = archive.infolist()[0].header_offset
    with io.BytesIO() as other:
        other.write(DESCRIBED[:start])
        with zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, bytes(size))
        must_fail(UsageError, reason, Metadata.read, other.getvalue())


@pytest.mark.skipif(not SHARED.is_dir(), reason="the foreign models are not beside the checkout")
def test_metadata_of_others_is_read() -> None:
    found = Metadata.read((SHARED / "tf2_mobilenet_v2_1.0_224_ptq.tflite").read_bytes())
    assert (found.mean, found.std, len(found.labels)) == ((127.5,), (127.5,), 1001)
    assert found.labels[1] == "tench, Tinca tinca"
