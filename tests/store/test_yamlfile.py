"""YAML from strangers: whatever is in the file, reading it gives values or an error in words, and soon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.devices.profiles import read_profile
from advisor.engine.question import resolve
from advisor.store.yamlfile import read_yaml

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


def file(folder: Path, text: str) -> Path:
    path = folder / "given.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_endless_nesting_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"given\.yaml:\d+: "):
        read_yaml(file(tmp_path, text))


def test_aliases_that_would_fill_the_memory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="aliases that grow to more than"):
        read_yaml(file(tmp_path, BOMB))


def test_a_number_of_a_million_digits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"given\.yaml"):
        read_yaml(file(tmp_path, "a: " + "9" * 1_000_000))


def test_a_long_text_is_only_a_text(tmp_path: Path) -> None:
    assert read_yaml(file(tmp_path, "a: " + "x" * 1_000_000)).values == {"a": "x" * 1_000_000}


def test_a_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"larger than 10 B"):
        read_yaml(file(tmp_path, "a: 12345678"), max_bytes=10)


@pytest.mark.parametrize(
    "text", [*ENDLESS.values(), BOMB, "kind: !!python/name:os.system ''"], ids=[*ENDLESS, "bomb", "code"]
)
def test_device_profiles_and_requests_are_read_the_same_way(tmp_path: Path, text: str) -> None:
    path = file(tmp_path, text)
    with pytest.raises(UsageError):
        read_profile(path)
    with pytest.raises(UsageError, match="--request: "):
        resolve({}, path)


@pytest.mark.parametrize("text", ["a: !!timestamp foo", "a: !!bool foo", 'a: !!int ""', "a: !!float x"])
def test_text_that_is_not_of_its_tags_kind_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"given\.yaml:1: .* is not of the kind"):
        read_yaml(file(tmp_path, text))


def test_a_number_of_many_sexagesimal_places_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"given\.yaml:1: a number of 15001 characters"):
        read_yaml(file(tmp_path, "a: 1" + ":20" * 5000))


def test_a_nul_character_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"given\.yaml:2: a NUL character"):
        read_yaml(file(tmp_path, 'a: 1\nb: "x\\0y"\n'))


def test_keys_that_are_numbers_become_text_if_they_are_accepted(tmp_path: Path) -> None:
    path = file(tmp_path, "names: {0: cat, 1: dog}")
    assert read_yaml(path, number_keys=True).values == {"names": {"0": "cat", "1": "dog"}}
    with pytest.raises(UsageError, match="the key 0 is not text"):
        read_yaml(path)


def test_a_number_and_its_text_are_the_same_key(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the key '0' is there twice"):
        read_yaml(file(tmp_path, '{0: cat, "0": dog}'), number_keys=True)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe: is not a plain file"):
        read_yaml(tmp_path / "pipe")
