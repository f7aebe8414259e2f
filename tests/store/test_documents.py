"""Documents of others: JSON, YAML, tables and blocks of rows, read whole or refused in words."""

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from advisor.core import UsageError
from advisor.devices._profiles import read_profile
from advisor.engine import resolve
from advisor.store import (
    ROWS,
    ColumnType,
    YamlDocument,
    add_block,
    build_frame,
    fill_folder,
    parse_json,
    read_document,
    read_json,
)
from advisor.store._cached_rows import compute_cached_rows, write_block
from advisor.store._run_documents import KINDS
from tests.builders import must_fail
from tests.tables import with_cases

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)  # fmt: skip
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
ALL = [sha256(str(number).encode()).digest() for number in range(40)]
ENDLESS = {
    "lists": "[" * 100_000,
    "lists that end": "[" * 100_000 + "]" * 100_000,
    "mappings": "a: " + "{b: " * 100_000,
    "dashes": "- " * 20_000,
    "blocks": "\n".join(" " * depth + "a:" for depth in range(1500)),
    "keys": "? " * 50_000,
    "tags": "!!seq [" * 50_000,
}
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefghij", "bcdefghijk", strict=True)
)


def written(folder: Path, **entries: object) -> Path:
    path = folder / "manifest.json"
    path.write_text(json.dumps({"schema_version": 1, **entries}), encoding="utf-8")
    return path


def test_a_whole_document_has_no_problem_and_another_schema_is_one(tmp_path: Path) -> None:
    found = read_document(written(tmp_path, configurations=2, versions={"numpy": "2.4.6"}, new_entry=[{}]))
    assert found.problems == ()
    assert found.entries == {
        "schema_version": 1, "configurations": 2, "versions": {"numpy": "2.4.6"}, "new_entry": [{}],
    }  # fmt: skip
    assert read_document(written(tmp_path, schema_version=2)).problems[0].startswith("is of schema 2, not 1")


@pytest.mark.parametrize("wrong", [None, True, "two", [2], {"a": 2}, 2.5])
def test_an_entry_of_a_wrong_type_is_left_out_and_named(tmp_path: Path, wrong: object) -> None:
    found = read_document(written(tmp_path, configurations=wrong, advisor="0.1.0"))
    assert found.problems == ("is damaged (configurations is of a wrong type): this entry is ignored",)
    assert found.entries == {"schema_version": 1, "advisor": "0.1.0"}


def test_the_place_of_damage_is_named(tmp_path: Path) -> None:
    found = read_document(written(tmp_path, versions={"numpy": "\0"}))
    assert found.problems == ("is damaged (versions.numpy: a NUL character): its content is ignored",)
    assert found.entries == {}


@pytest.mark.parametrize("name", KINDS)
def test_a_document_that_is_missing_is_empty(tmp_path: Path, name: str) -> None:
    assert read_document(tmp_path / name).entries == {}


def test_the_name_of_a_column_says_its_type_also_for_missing_values_and_without_rows() -> None:
    found = build_frame(["card", "latency_ms", "size_bytes", "contended"], [{"card": "net", "size_bytes": 3}, {}])
    assert [str(kind) for kind in found.dtypes] == ["str", "float64", "Int64", "boolean"]
    assert found.isna().to_numpy().tolist() == [[False, True, False, True], [True, True, True, True]]
    assert list(build_frame(["card", "threads"], []).columns) == ["card", "threads"]
    columns = ("card", "latency_p90_ms", "top1_percent", "size_bytes", "threads", "meets_budget")
    assert list(map(ColumnType.of_column, columns)) == ["str", "float64", "float64", "Int64", "Int64", "boolean"]


@settings(max_examples=15)
@given(VALUES)
def test_plain_values_come_back_as_they_were_written(value: object) -> None:
    assert parse_json(json.dumps(value)) == value


@with_cases
def test_what_is_beyond_the_limits_is_named_with_its_place(parts: list[str | tuple[str, int]], words: str) -> None:
    """A text in ``parts``: each is a text, or one with how many times it is repeated."""
    text = "".join(part if isinstance(part, str) else part[0] * part[1] for part in parts)
    refused = must_fail(ValueError, "", parse_json, text)
    assert str(refused).startswith(words)


@pytest.mark.parametrize("read", [read_json, YamlDocument.read])
def test_a_pipe_and_a_file_over_the_limit_are_refused(tmp_path: Path, read: Callable[[Path, int], object]) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_text("[1, 2, 3]")
    must_fail(UsageError, r"pipe: is not a plain file", read, tmp_path / "pipe", 4)
    must_fail(UsageError, "larger than 4 B", read, tmp_path / "large", 4)


class Work:
    """Counts what is computed: row i is (i, i + 0.5)."""

    def __init__(self, names: Sequence[bytes]) -> None:
        self.done: list[int] = []
        self._names = names

    def __call__(self, places: Sequence[int]) -> Floats:
        numbers = [ALL.index(self._names[place]) for place in places]
        self.done += numbers
        return np.array([(number, number + 0.5) for number in numbers], np.float32).reshape(-1, 2)


def _get(blocks: Path, numbers: Sequence[int], block: str = "") -> list[int]:
    """Get rows, check them, add them as a block where it has a name; return what was computed."""
    names = [ALL[number] for number in numbers]
    work = Work(names)
    rows = compute_cached_rows(blocks, names, work)
    assert rows[:, 0].tolist() == list(numbers)
    if block:
        folder = fill_folder(blocks.parent / block, lambda made: write_block(made, names, rows))
        add_block(blocks, folder)
    return work.done


def test_only_what_no_block_has_is_computed_and_equal_images_share_a_row(tmp_path: Path) -> None:
    blocks = tmp_path / "list.blocks"
    assert _get(blocks, range(10), "first") == list(range(10))
    assert _get(blocks, [3, *range(10, 15), 12], "second") == [*range(10, 15), 12]
    assert _get(blocks, range(20)) == list(range(15, 20))
    assert _get(blocks, [14, 0, 7, 14]) == []


@pytest.mark.parametrize("damage", ["gone", "cut short", "other shape", "pickle", "other values"])
def test_a_damaged_block_is_computed_again(tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str) -> None:
    blocks = tmp_path / "list.blocks"
    _get(blocks, range(4), "first")
    path = tmp_path / "first" / ROWS
    path.chmod(0o644)
    if damage == "gone":
        path.unlink()
    elif damage == "cut short":
        path.write_bytes(path.read_bytes()[:-5])
    elif damage == "pickle":
        np.save(path, np.array([{}] * 4, object), allow_pickle=True)
    else:
        np.save(path, np.zeros((3 if damage == "other shape" else 4, 2), np.float32))
    if damage != "other values":
        (tmp_path / "first.sha256").unlink()  # older versions wrote none
    assert _get(blocks, range(4)) == list(range(4))
    assert (str(path) in caplog.text) is (damage == "other values")


def test_a_line_cut_short_by_a_kill_loses_that_block_alone(tmp_path: Path) -> None:
    blocks = tmp_path / "list.blocks"
    _get(blocks, range(4), "first")
    _get(blocks, range(4, 8), "second")
    blocks.write_bytes(blocks.read_bytes()[:-3])
    assert _get(blocks, range(8), "third") == list(range(4, 8))
    assert _get(blocks, range(8)) == []


def test_a_listed_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    _get(tmp_path / "list.blocks", range(4), "outside")
    blocks = folder / "list.blocks"
    blocks.write_text("../outside\n")
    assert _get(blocks, range(4)) == list(range(4))


def test_blocks_added_at_once_are_all_listed(tmp_path: Path) -> None:
    blocks = tmp_path / "list.blocks"
    folders = [tmp_path / f"block{number}" for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda folder: add_block(blocks, folder), folders * 2))
    assert sorted(blocks.read_text().split()) == sorted(folder.name for folder in folders)


def file(folder: Path, text: str) -> Path:
    path = folder / "given.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, r"given\.yaml:\d+: ") for text in ENDLESS.values()),
        (BOMB, "aliases that grow to more than"),
        ("a: " + "9" * 1_000_000, r"given\.yaml"),
        ("a: !!timestamp foo", r"given\.yaml:1: .* is not of the kind"),
        ("a: !!bool foo", r"given\.yaml:1: .* is not of the kind"),
        ('a: !!int ""', r"given\.yaml:1: .* is not of the kind"),
        ("a: !!float x", r"given\.yaml:1: .* is not of the kind"),
        ("a: 1" + ":20" * 5000, r"given\.yaml:1: a number of 15001 characters"),
        ('a: 1\nb: "x\\0y"\n', r"given\.yaml:2: a NUL character"),
    ],
    ids=[*ENDLESS, "bomb", "digits", "timestamp", "bool", "int", "float", "base 60", "NUL"],
)
def test_nesting_and_what_is_beyond_limits_or_of_no_kind_is_refused(tmp_path: Path, text: str, words: str) -> None:
    must_fail(UsageError, words, YamlDocument.read, file(tmp_path, text))


def test_a_long_text_is_only_a_text(tmp_path: Path) -> None:
    assert YamlDocument.read(file(tmp_path, "a: " + "x" * 1_000_000)).values == {"a": "x" * 1_000_000}


@pytest.mark.parametrize(
    "text", [ENDLESS["lists"], BOMB, "kind: !!python/name:os.system ''"], ids=["lists", "bomb", "code"]
)
def test_device_profiles_and_requests_are_read_the_same_way(tmp_path: Path, text: str) -> None:
    path = file(tmp_path, text)
    must_fail(UsageError, "", read_profile, path)
    must_fail(UsageError, "--request: ", resolve, {}, path)


def test_keys_that_are_numbers_become_text_if_they_are_accepted_and_are_the_same_key_as_it(tmp_path: Path) -> None:
    path = file(tmp_path, "names: {0: cat, 1: dog}")
    assert YamlDocument.read(path, as_text=True).values == {"names": {"0": "cat", "1": "dog"}}
    must_fail(UsageError, "the key 0 is not text", YamlDocument.read, path)
    path = file(tmp_path, '{0: cat, "0": dog}')
    must_fail(UsageError, "the key '0' is there twice", YamlDocument.read, path, as_text=True)
