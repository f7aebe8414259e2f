"""Images inside zip files, shards and tables are read where they are, and never unpacked."""

import hashlib
import importlib.util
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.core import StageError, UsageError, _errors as errors, install_extra
from advisor.datasets import (
    Kind,
    Listing,
    Survey,
    _archives as archives,
    _manifests as manifests,
    address_of,
    list_files,
    load,
    open_image,
    require_unchanged,
    sha256_of,
    write_manifest,
)
from advisor.datasets._sources import base
from advisor.datasets._sources.tables import ParquetTable
from advisor.datasets._sources.zipped import INFLATED, SHARED
from advisor.engine._data_check import check_images
from tests.builders import must_fail
from tests.datasets.folders import image, make, tarred

pa = pytest.importorskip("pyarrow", reason="pyarrow is an extra")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is an extra")

CLASSES = ("cat", "dog")
Pictures = Sequence[tuple[str, bytes]]


def jpeg(seed: int) -> bytes:
    stored = io.BytesIO()
    image(seed).save(stored, "JPEG")
    return stored.getvalue()


PICTURES: Pictures = [(CLASSES[number % 2], jpeg(number)) for number in range(6)]


def zipped(path: Path, pictures: Iterable[tuple[str, bytes]], below: str = "") -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for number, (label, data) in enumerate(pictures):
            file.writestr(f"{below}{label}/{number}.jpg", data)
    return path


def shard(path: Path, pictures: Pictures) -> Path:
    files = [
        (f"{number:06d}.{extension}", data)
        for number, (label, picture) in enumerate(pictures)
        for extension, data in (("jpg", picture), ("cls", str(CLASSES.index(label)).encode()))
    ]
    return tarred(path, files)


def table(pictures: Pictures, classes: Sequence[str] = CLASSES) -> Any:
    """What ``datasets`` writes: a struct of bytes and path, and the class names in the metadata."""
    features = {"image": {"_type": "Image"}, "label": {"names": list(classes), "_type": "ClassLabel"}}
    schema = pa.schema(
        [("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("label", pa.int64())],
        {"huggingface": json.dumps({"info": {"features": features}})},
    )
    rows = [{"bytes": data, "path": f"{number}.jpg"} for number, (_, data) in enumerate(pictures)]
    return pa.Table.from_arrays(
        [pa.array(rows, schema.field("image").type), pa.array([classes.index(label) for label, _ in pictures])],
        schema=schema,
    )


def parquet(path: Path, pictures: Pictures) -> Path:
    pq.write_table(table(pictures), path, row_group_size=2)
    return path


def arrow_stream(path: Path, pictures: Pictures, form: Callable[..., Any] = pa.ipc.new_stream) -> Path:
    with pa.OSFile(str(path), "wb") as sink, form(sink, table(pictures).schema) as writer:
        writer.write_table(table(pictures), max_chunksize=4)
    return path


WRITERS: dict[str, tuple[str, Callable[[Path, Pictures], Path]]] = {
    "zip": ("photos.zip", zipped),
    "shard": ("photos-000.tar", shard),
    "parquet": ("photos.parquet", parquet),
    "arrow stream": ("photos.arrow", arrow_stream),
    "arrow file": ("photos.arrow", partial(arrow_stream, form=pa.ipc.new_file)),
}


def labels(listing: Listing) -> list[str]:
    return [entry.label for entry in listing.entries]


@pytest.mark.parametrize(("name", "write"), WRITERS.values(), ids=WRITERS)
def test_images_in_a_file_are_a_folders(tmp_path: Path, name: str, write: Callable[[Path, Pictures], Path]) -> None:
    file = write(tmp_path / name, PICTURES)
    read = Survey.read(file).dataset
    named = {"0": "cat", "1": "dog"} if name.endswith(".tar") else {}
    assert [named.get(read.classes[each.label], read.classes[each.label]) for each in read.images] == [
        label for label, _ in PICTURES
    ]
    for each, (_, data) in zip(read.images, PICTURES, strict=True):
        (tmp_path / "plain.jpg").write_bytes(data)
        assert each.sha256 == sha256_of(tmp_path / "plain.jpg")
        np.testing.assert_array_equal(load(each.path, 24), load(tmp_path / "plain.jpg", 24))
        with open_image(each.path) as opened:
            assert opened.size == (48, 36)
    assert [path.name for path in tmp_path.iterdir() if path.name != "plain.jpg"] == [name]


@pytest.mark.parametrize(("name", "write"), WRITERS.values(), ids=WRITERS)
def test_a_rewritten_file_is_read_again(tmp_path: Path, name: str, write: Callable[[Path, Pictures], Path]) -> None:
    file = write(tmp_path / name, PICTURES)
    images = Survey.read(file).dataset.images
    paths, stamps = [each.path for each in images], [each.stamp for each in images]
    require_unchanged(paths, stamps)
    write(file, [(label, jpeg(90 + number)) for number, (label, _) in enumerate(PICTURES)])
    must_fail(StageError, "6 images changed or disappeared", require_unchanged, paths, stamps)
    assert sha256_of(paths[0]) != images[0].sha256
    file.unlink()
    must_fail(StageError, "cannot be read", load, paths[0], 24)


def test_a_manifest_may_name_images_inside_files(tmp_path: Path) -> None:
    read = Survey.read(zipped(tmp_path / "photos.zip", PICTURES)).dataset
    write_manifest(tmp_path / "cleaned.csv", read, {read.images[0].path})
    again = Survey.read(tmp_path / "cleaned.csv").dataset
    assert [each.sha256 for each in again.images] == [each.sha256 for each in read.images[1:]]


def test_the_folders_of_hugging_face_name_the_parts(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    parquet(tmp_path / "data" / "train-00000-of-00001.parquet", PICTURES[:4])
    parquet(tmp_path / "data" / "test-00000-of-00001.parquet", PICTURES[4:])
    (tmp_path / "README.md").write_text("a card")
    assert {(entry.part, entry.label) for entry in list_files(tmp_path).entries} == {
        (part, label) for part in ("train", "holdout") for label in CLASSES
    }


def test_a_folder_that_datasets_saved_is_read(tmp_path: Path) -> None:
    for part in ("train", "validation"):
        (tmp_path / part).mkdir()
        arrow_stream(tmp_path / part / "data-00000-of-00001.arrow", PICTURES)
        (tmp_path / part / "dataset_info.json").write_text("{}")
    assert [entry.part for entry in list_files(tmp_path).entries] == ["train"] * 6 + ["validation"] * 6


def test_several_shards_are_one_set(tmp_path: Path) -> None:
    shard(tmp_path / "train-000.tar", PICTURES[:4])
    shard(tmp_path / "train-001.tar", PICTURES[4:])
    assert (len(list_files(tmp_path).entries), {entry.part for entry in list_files(tmp_path).entries}) == (6, {""})


def test_a_shard_may_have_names_in_json_or_classes_as_folders(tmp_path: Path) -> None:
    said = [(f"{n}.json", json.dumps({"label": label, "more": 1}).encode()) for n, (label, _) in enumerate(PICTURES)]
    images = [(f"{n}.png", data) for n, (_, data) in enumerate(PICTURES)]
    in_json = tarred(tmp_path / "json.tar", [file for pair in zip(images, said, strict=True) for file in pair])
    places = [(f"./{label}/{n}.jpg", data) for n, (label, data) in enumerate(PICTURES)]
    in_folders = tarred(tmp_path / "folders.tar", places)
    assert labels(list_files(in_json)) == labels(list_files(in_folders)) == [label for label, _ in PICTURES]
    assert len(Survey.read(in_folders).dataset.images) == 6


@pytest.mark.parametrize("lost", [1, 300, 700, 1200, 1536, 2200])
def test_a_shard_that_ends_in_the_middle_gives_its_whole_images_and_says_so(tmp_path: Path, lost: int) -> None:
    file = shard(tmp_path / "a.tar", PICTURES)
    end = file.read_bytes().rstrip(b"\0")
    file.write_bytes(end[: len(end) - lost])
    read = Survey.read(file).dataset
    assert [each.sha256 for each in read.images] == [hashlib.sha256(data).hexdigest() for _, data in PICTURES][:5]
    assert any("the file ends in the middle" in row.reason for row in read.rejected)


def test_links_and_names_that_lead_out_of_a_tar_are_left_out(tmp_path: Path) -> None:
    secret = tmp_path / "secret.jpg"
    secret.write_bytes(jpeg(50))
    tarred(tmp_path / "a.tar", [(f"{label}/{number}.jpg", data) for number, (label, data) in enumerate(PICTURES)])
    with tarfile.open(tmp_path / "a.tar", "a") as file:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            link = tarfile.TarInfo("cat/link.jpg")
            link.type, link.linkname = kind, str(secret)
            file.addfile(link)
        for name in (str(secret), "../secret.jpg"):
            info = tarfile.TarInfo(name)
            info.size = 5
            file.addfile(info, io.BytesIO(b"12345"))
    listing = list_files(tmp_path / "a.tar")
    assert len(listing.entries) == 6
    assert [row.reason for row in listing.rejected] == ["a link or device, and no file"] * 2 + [
        "its name leads out of the archive"
    ] * 2


def test_names_that_lead_out_of_a_zip_and_encrypted_members_are_left_out(tmp_path: Path) -> None:
    file = zipped(tmp_path / "a.zip", PICTURES)
    with zipfile.ZipFile(file, "a") as more:
        more.writestr("../cat/9.jpg", PICTURES[0][1])
        more.writestr("/etc/cat/9.jpg", PICTURES[0][1])
        more.writestr("..\\..\\etc\\9.jpg", PICTURES[0][1])
    listing = list_files(file)
    assert len(listing.entries) == 6
    assert [row.reason for row in listing.rejected] == ["its name leads out of the archive"] * 3


def test_an_image_that_claims_to_be_huge_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_IMAGE_BYTES", 2_000_000)
    with zipfile.ZipFile(zipped(tmp_path / "a.zip", PICTURES), "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr("cat/bomb.jpg", bytes(3_000_000))
    rejected = Survey.read(tmp_path / "a.zip").dataset.rejected
    assert [row.reason for row in rejected] == ["the image has 3 MB, above the limit of 2 MB"]


def test_a_compressed_tar_says_what_to_do(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w:gz") as file:
        file.addfile(tarfile.TarInfo("cat/1.jpg"))
    caught = must_fail(UsageError, "cannot be read as a tar file", list_files, tmp_path / "a.tar")
    assert "store it uncompressed" in caught.hint


@pytest.mark.parametrize("name", ["photos.zip", "photos-000.tar", "photos.parquet", "photos.arrow"])
def test_a_file_that_is_cut_or_none_of_its_kind_is_refused(tmp_path: Path, name: str) -> None:
    data = dict(WRITERS.values())[name](tmp_path / name, PICTURES).read_bytes()
    damaged = [b"no such thing" * 100]
    if not name.endswith(".tar"):
        damaged.append(data[: len(data) // 2])
    for content in damaged:
        (tmp_path / name).write_bytes(content)
        must_fail(UsageError, f"'{tmp_path / name}' cannot be read as", list_files, tmp_path / name)


def test_a_parquet_column_of_another_type_is_named(tmp_path: Path) -> None:
    wrong = table(PICTURES).set_column(1, "label", pa.array([[0]] * 6))
    pq.write_table(wrong, tmp_path / "a.parquet")
    must_fail(UsageError, r"the column 'label' of .* has the type list", list_files, tmp_path / "a.parquet")
    feather = pa.table({"image": [1.5] * 6, "label": [0, 1] * 3})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink, pa.ipc.new_file(sink, feather.schema) as writer:
        writer.write_table(feather)
    with pytest.raises(UsageError, match=r"no column with the bytes of images, but 'image' \(double\)"):
        list_files(tmp_path / "a.arrow")


def test_a_table_without_labels_names_its_columns(tmp_path: Path) -> None:
    pq.write_table(table(PICTURES).rename_columns(["image", "kind_of_animal"]), tmp_path / "a.parquet")
    must_fail(UsageError, r"no column 'label', but .*'kind_of_animal' \(int64\)", list_files, tmp_path / "a.parquet")


def test_rows_without_label_or_bytes_are_left_out(tmp_path: Path) -> None:
    rows = [{"bytes": data, "path": ""} for _, data in PICTURES] + [{"bytes": None, "path": "elsewhere.jpg"}]
    found = pa.table({"image": rows, "label": ["cat", "dog", "cat", None, "dog", "cat", "dog"]})
    pq.write_table(found, tmp_path / "a.parquet")
    rejected = Survey.read(tmp_path / "a.parquet").dataset.rejected
    assert [(row.path.name, row.reason) for row in rejected] == [
        ("0000003", "no label"),
        ("0000006", "the table has no bytes of it"),
    ]


def test_a_row_group_that_does_not_fit_into_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.datasets._sources.tables.MOST_GROUP_BYTES", 1000)
    with pytest.raises(UsageError, match="has a row group of .* kB, which must be in memory at once"):
        ParquetTable(parquet(tmp_path / "a.parquet", PICTURES))


def test_the_path_of_a_plain_file_is_no_address_inside_one(tmp_path: Path) -> None:
    folder = make(tmp_path / "photos.zip", cat=2)  # a folder with such a name
    assert address_of(next(folder.rglob("*.jpg"))) is None


def test_thousands_of_classes_are_listed_and_refused_as_too_small(tmp_path: Path) -> None:
    names = [str(number) for number in range(3000)]
    pq.write_table(pa.table({"image": [b"x"] * 3000, "label": names}), tmp_path / "a.parquet")
    read = Survey.read(tmp_path / "a.parquet").dataset
    assert (len(read.classes), len(read.rejected)) == (3000, 3000)


def test_one_image_many_times_is_counted_and_a_split_with_it_is_refused(tmp_path: Path) -> None:
    others = [("dog", jpeg(number)) for number in range(2, 12)]
    checked = check_images(zipped(tmp_path / "a.zip", [("cat", jpeg(1))] * 20 + others), None)
    copies = next(each for each in checked.findings if each.kind is Kind.EXACT_DUPLICATES)
    assert (copies.message, len(copies.leave_out)) == ("1 image occurs twice or more, 19 files too many", 19)
    assert "no image of 'cat' is left for the hold-out, as its images are copies of one another" in checked.not_split


@pytest.mark.parametrize("name", ["photos.parquet", "photos.arrow"])
def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    file = dict(WRITERS.values())[name](tmp_path / name, PICTURES)
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None if package == "pyarrow" else found(package))
    monkeypatch.setattr(errors, "find_spec", importlib.util.find_spec)
    caught = must_fail(UsageError, "is a table with images, which pyarrow reads", list_files, file)
    assert install_extra("arrow") in caught.hint


@pytest.mark.parametrize(("name", "write"), [WRITERS["zip"], WRITERS["parquet"]], ids=["zip", "parquet"])
def test_a_listing_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, write: Callable[[Path, Pictures], Path]
) -> None:
    monkeypatch.setattr(archives, "LISTED_EVERY", 2)
    told: list[tuple[int, int]] = []
    Survey.read(write(tmp_path / name, PICTURES), lambda done, total: told.append((done, total)))
    assert told == [(0, 0), (2, 0), (4, 0), *((done, 6) for done in range(1, 7))]


def test_a_manifest_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "LISTED_EVERY", 10)
    told: list[int] = []
    (tmp_path / "m.csv").write_text("path,label\n" + "".join(f"{row}.jpg,{row % 2}\n" for row in range(25)))
    list_files(tmp_path / "m.csv", told.append)
    assert told == [10, 20]


@pytest.mark.parametrize("place", ["az://container/photos", "hdfs://host/train.tar"])
def test_another_object_store_says_what_to_do(place: str) -> None:
    caught = must_fail(UsageError, f"'{place}' is in a store that is not read here", list_files, Path(place))
    assert "copy the files here" in caught.hint


def test_images_whose_name_an_archive_has_twice_are_left_out(tmp_path: Path) -> None:
    twice = [("cat/1.jpg", PICTURES[0][1]), ("cat/2.jpg", PICTURES[2][1]), ("dog/3.jpg", PICTURES[1][1])]
    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as file:
        for name, data in twice:
            file.writestr(name, data)
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("cat/1.jpg", PICTURES[3][1])
    tarred(tmp_path / "twice.tar", [*twice, ("cat/1.jpg", PICTURES[3][1])])
    for archive in ("twice.zip", "twice.tar"):
        listing = list_files(tmp_path / archive)
        (rejected,) = listing.rejected
        assert (rejected.path.name, rejected.reason) == ("1.jpg", "the archive has several files of this name")
        must_fail(StageError, "several files of this name", load, tmp_path / archive / "cat/1.jpg", 32)


def test_files_of_a_zip_that_share_bytes_or_are_bombs_are_left_out(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as file:
        file.writestr("dog/2.jpg", PICTURES[1][1])
        hidden = file.infolist()[0]
        stored = inner.getvalue()
    with zipfile.ZipFile(tmp_path / "odd.zip", "w") as file:
        for name, place in (("cat/3.jpg", 2), ("dog/4.jpg", 3)):
            file.writestr(name, PICTURES[place][1])
        file.writestr("cat/1.jpg", PICTURES[0][1] + stored)  # what is behind a JPEG is not decoded
        hidden.header_offset = file.start_dir - len(stored)
        file.filelist.append(hidden)
        file.writestr("dog/5.bmp", bytes(20_000_000), zipfile.ZIP_BZIP2)
    faults = {row.path.name: row.reason for row in list_files(tmp_path / "odd.zip").rejected}
    assert faults == {"1.jpg": SHARED, "2.jpg": SHARED, "5.bmp": INFLATED}
    for name, fault in (("dog/2.jpg", SHARED), ("dog/5.bmp", INFLATED)):
        refused = must_fail(StageError, "", load, tmp_path / "odd.zip" / name, 32)
        assert fault in str(refused)


def test_a_sample_whose_files_say_two_classes_is_left_out(tmp_path: Path) -> None:
    said = {"0": ("cat", "dog"), "1": ("cat", "cat"), "2": ("7", "dog"), "3": ("dog", "dog"), "4": ("1", "2")}
    files = []
    for stem, (name, in_json) in said.items():
        files += [(f"{stem}.jpg", PICTURES[int(stem)][1]), (f"{stem}.cls", name.encode())]
        files.append((f"{stem}.json", json.dumps({"label": in_json}).encode()))
    listing = list_files(tarred(tmp_path / "said.tar", [*files, ("3.cls", b"cat")]))
    assert {row.path.name: row.reason for row in listing.rejected} == {
        "0.jpg": "its .cls says 'cat', and its .json 'dog'",
        "3.jpg": "the archive has several files '.cls' of it",
        "4.jpg": "its .cls says '1', and its .json '2'",
    }
    assert [entry.label for entry in listing.entries] == ["cat", "7"]
