"""``advisor init``: a request file with a comment for every option."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import yaml

from advisor.engine.question import resolve
from advisor.engine.question.options import REQUEST_OPTIONS
from tests.cli.conftest import Advisor


def test_the_options_that_were_given_are_set_and_all_others_are_comments(advisor: Advisor, tmp_path: Path) -> None:
    said = advisor("init", "--budget", "50ms", "--threads", "1,2", "--offline")
    assert said.code == 0, said.err
    text = (tmp_path / "advisor.yaml").read_text()
    written = {"schema_version": 1, "budget": "50ms", "threads": ["1", "2"], "offline": True}
    assert yaml.safe_load(text) == written
    assert all(f"# {name}:" in text for name in REQUEST_OPTIONS if name not in written)
    assert "# Latency limit that 9 of 10 runs meet" in text


def test_a_search_reads_it_with_and_without_the_comments(advisor: Advisor, tmp_path: Path) -> None:
    assert advisor("init", "ask.yaml", "--budget", "50ms", "--licence", "MIT,Apache-2.0").code == 0
    file = tmp_path / "ask.yaml"
    asked = resolve({"budget": "50ms", "licence": "MIT,Apache-2.0"}).written
    assert resolve({}, file).written == asked
    lines = [line.removeprefix("# ") for line in file.read_text().splitlines()]
    defaults = [line for line in lines if line.split(": ")[0] in REQUEST_OPTIONS]
    file.write_text("\n".join(defaults))
    assert resolve({}, file).written == asked


def test_editors_find_the_schema_that_it_keeps(advisor: Advisor, tmp_path: Path) -> None:
    assert advisor("init", "--budget", "50ms").code == 0
    text = (tmp_path / "advisor.yaml").read_text()
    schema = json.loads(Path(text.splitlines()[0].partition("$schema=")[2]).read_text())
    jsonschema.validate(yaml.safe_load(text), schema)
    assert set(schema["properties"]) == {"schema_version", *REQUEST_OPTIONS}


def test_a_file_is_replaced_by_force_only(advisor: Advisor, tmp_path: Path) -> None:
    (tmp_path / "advisor.yaml").write_text("budget: 10ms\n")
    said = advisor("init")
    assert (said.code, "already exists" in said.err) == (2, True)
    assert advisor("init", "--force").code == 0


def test_an_option_that_a_search_would_refuse_is_not_written(advisor: Advisor, tmp_path: Path) -> None:
    said = advisor("init", "--budget", "50")
    assert said.code == 2
    assert "did you mean --budget 50ms?" in said.err
    assert not (tmp_path / "advisor.yaml").exists()


def test_a_folder_that_does_not_exist_is_named(advisor: Advisor) -> None:
    said = advisor("init", "nowhere/advisor.yaml")
    assert (said.code, "the folder 'nowhere' does not exist" in said.err) == (2, True)
