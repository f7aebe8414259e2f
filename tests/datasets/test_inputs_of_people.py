"""Inputs as other tools and people write them are read right, or asked about: the cases are in a file."""

import tarfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from advisor.core import UsageError
from advisor.datasets import list_files
from advisor.datasets._boxes import list_boxes
from advisor.store import read_yaml
from tests.datasets.boxes.writers import save, write

CASES = read_yaml(Path(__file__).with_name("inputs_of_people.yaml")).values
BOXES = {("1.jpg", "cat", 10, 20, 40, 60), ("2.jpg", "dog", 50, 50, 90, 80)}


def write_case(root: Path, case: dict[str, Any]) -> Path:
    """Write the images and files of a case, and return the path to give."""
    for name in case.get("images", ()):
        for number in range(6 if "{}" in name else 1):
            save(root / name.replace("{}", str(number)), seed=number)
    for name, text in case.get("files", {}).items():
        lines = []
        for line in text.split("\n"):
            for number in range(6 if "{n}" in line else 1):
                values = {"{n}": number, "{c}": "ab"[number % 2], "{a}": 1 - number % 2, "{b}": number % 2}
                written = line
                for word, value in values.items():
                    written = written.replace(word, str(value))
                lines.append(written)
        write(root / name, "\n".join(lines), case.get("encoding", "utf-8"))
    if "pack" in case:
        pack(root, case["give"], case["pack"])
    return root / case.get("give", "")


class WrittenName(zipfile.ZipInfo):
    """A file in a zip whose name is in a code page, as programs write it that do not know UTF-8."""

    code = "cp437"

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:
        return self.filename.encode(self.code), 0


def pack(root: Path, name: str, code: str) -> None:
    """Write the files of a folder into an archive in it, with names in a code page."""
    files = [file for file in sorted(root.rglob("*.*")) if file.is_file()]
    if name.endswith(".tar"):
        with tarfile.open(root / name, "w", encoding=code) as tar:
            for file in files:
                tar.add(file, file.relative_to(root))
        return
    WrittenName.code = code
    with zipfile.ZipFile(root / name, "w") as archive:
        for file in files:
            archive.writestr(WrittenName(str(file.relative_to(root))), file.read_bytes())


@pytest.mark.parametrize("name", CASES["classes"])
def test_classes_are_read_right_or_asked_about(tmp_path: Path, name: str) -> None:
    case = CASES["classes"][name]
    path = write_case(tmp_path, case)
    if "asked" in case:
        with pytest.raises(UsageError) as asked:
            list_files(path)
        assert case["asked"] in f"{asked.value.message} {asked.value.hint}"
        for reading in getattr(asked.value, "readings", ()):
            assert list_files(Path(reading.options["data"])).entries
        return
    listing = list_files(path)
    there = [entry for entry in listing.entries if "pack" in case or entry.path.exists()]
    assert Counter(entry.label for entry in there) == case["right"]
    assert {entry.part for entry in listing.entries} == set(case.get("parts", [""]))
    assert any(note.startswith(case.get("noted", "")) for note in ("", *listing.notes) if note or "noted" not in case)


@pytest.mark.parametrize("name", CASES["boxes"])
def test_boxes_are_read_right(tmp_path: Path, name: str) -> None:
    case = CASES["boxes"][name]
    for image in case.get("photos", ("1.jpg", "2.jpg")):
        save(tmp_path / image, size=(case.get("side", 100),) * 2)
    path = write_case(tmp_path, case)
    if "asked" in case:
        with pytest.raises(UsageError, match=case["asked"]):
            list_boxes(path)
        return
    listing = list_boxes(path)
    parts = {entry.part for entry in listing.entries}
    assert parts == set(case.get("parts", parts))
    assert any(note.startswith(case.get("noted", "")) for note in ("", *listing.notes) if note or "noted" not in case)
    scale = 100 if listing.relative else 1
    boxes = {(entry.path.name.lower(), box) for entry in listing.entries for box in entry.boxes if entry.path.exists()}
    assert {(name, box.label, *(round(scale * edge) for edge in box.edges)) for name, box in boxes} == BOXES
