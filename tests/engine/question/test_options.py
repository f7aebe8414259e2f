"""Options as a user writes them: names, types, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor.core.errors import UsageError
from advisor.engine.question import resolve
from advisor.engine.question.options import collect_options, read_file
from advisor.isolation.resources import usable_cores


def test_options_that_are_not_given_have_their_defaults() -> None:
    defaults = collect_options({}).values
    assert collect_options({"budget": "50ms", "workers": "2"}).values == {**defaults, "budget": "50ms", "workers": 2}


def test_an_unknown_name_shows_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown option 'buget' \(did you mean 'budget'\?\)"):
        collect_options({"buget": "50ms"})


def test_an_option_that_was_removed_is_unknown() -> None:
    with pytest.raises(UsageError, match="unknown option 'learn_from'"):
        collect_options({"learn_from": ["runs/latest"]})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": "x"}, "seed: 'x' is not a whole number"),
        ({"seed": -1}, "seed: -1 is below zero"),
        ({"threads": ["0"]}, "threads: 0 is not between 1 and 64"),
        ({"threads": "65"}, "threads: 65 is not between 1 and 64"),
        ({"offline": "perhaps"}, "offline: 'perhaps' is neither true nor false"),
        ({"budget": ["1ms", "2ms"]}, "is not one value"),
        ({"data": True}, "data: 'True' is not one value"),
    ],
)
def test_a_value_of_a_wrong_type_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        collect_options(options)
    assert words in refused.value.message
    assert refused.value.hint


def test_all_threads_are_the_cores_of_this_process() -> None:
    assert collect_options({"threads": ["1", "all"]})["threads"] == (1, usable_cores())


def test_one_value_of_a_list_needs_no_list() -> None:
    assert collect_options({"candidates": "squeezenet"})["candidates"] == ("squeezenet",)


def test_dashes_in_a_file_are_read_as_underscores(tmp_path: Path) -> None:
    file = tmp_path / "request.yaml"
    file.write_text("size-budget: 5MB\nschema_version: 1\n")
    assert read_file(file) == {"size_budget": "5MB"}


@pytest.mark.parametrize("text", ["- a list", "{", "!!python/object/apply:os.system ['true']", "\x00"])
def test_a_file_that_is_no_request_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "request.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match="--request"):
        read_file(file)


def test_the_written_options_are_a_request_file(tmp_path: Path) -> None:
    request = resolve({"budget": "50ms", "candidates": ["mobilenet_v2", "squeezenet"], "threads": ["1", "all"]})
    file = tmp_path / "request.yaml"
    file.write_text(yaml.safe_dump(dict(request.written)))
    assert resolve({}, file) == request


def test_written_options_keep_the_user_s_units() -> None:
    written = resolve({"budget": "0.05s", "time_limit": "10min"}).written
    assert (written["budget"], written["time_limit"]) == ("0.05s", "10min")


def test_written_options_hold_no_password() -> None:
    request = resolve({"storage": "postgresql://me:hidden@host/db"})
    assert request.written["storage"] == "postgresql://me@host/db"
    assert request.execution.storage == "postgresql://me:hidden@host/db"


def test_a_request_of_a_later_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "request.yaml"
    file.write_text("schema_version: 2\nbudget: 50ms\n")
    with pytest.raises(UsageError, match="has schema version 2, this advisor reads version 1"):
        read_file(file)
