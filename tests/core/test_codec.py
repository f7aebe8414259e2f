"""Dataclasses as JSON objects: entries beside the fields, and reading them back."""

from dataclasses import dataclass
from enum import StrEnum

from advisor.core import Written, parse
from advisor.core._codec import entries_of
from tests.builders import must_fail


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Part(Written):
    entries = ("*", "double")

    size: int
    colour: Colour = Colour.RED

    @property
    def double(self) -> int:
        return 2 * self.size


@dataclass(frozen=True)
class Whole(Written):
    entries = ("version", "first=parts", "size=chosen.size", "note=note?")
    version = 1

    parts: tuple[Part, ...]
    chosen: Part | None = None
    note: str = ""


WHOLE = Whole((Part(2),), Part(3))


def test_entries_may_be_properties_parts_and_constants_and_null_where_a_part_is_missing() -> None:
    found = WHOLE.to_json()
    assert found == {"version": 1, "first": [{"size": 2, "colour": "red", "double": 4}], "size": 3, "note": None}
    assert Whole(()).to_json()["size"] is None


def test_the_schemas_see_the_same_entries() -> None:
    assert entries_of(Whole) == {"version": "version", "first": "parts", "size": "chosen.size", "note": "note?"}


def test_computed_entries_are_ignored_by_the_reader_and_unknown_ones_refused() -> None:
    assert parse(Part, Part(2).to_json()) == Part(2)
    must_fail(TypeError, "", parse, Part, {"size": 2, "half": 1})
