"""``--sort`` and ``--filter`` of every command that prints a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from advisor.cli.main import app
from tests.cli.conftest import Advisor
from tests.cli.test_json import commands
from tests.run_folders import write_run

WITHOUT_TABLE = {
    "init", "catalog show", "catalog fetch", "catalog check", "catalog add", "devices show", "devices add",
    "devices remove", "devices calibrate", "explain", "serve", "mcp",
}  # fmt: skip


@pytest.mark.parametrize("command", commands(typer.main.get_command(app)))
def test_every_table_can_be_sorted_and_filtered(command: Any, request: pytest.FixtureRequest) -> None:
    options = {option for part in command.params for option in part.opts}
    has_table = request.node.callspec.id not in WITHOUT_TABLE
    assert ({"--sort", "--filter"} <= options) is has_table


@pytest.mark.integration
def test_the_table_and_the_document_have_the_same_rows(advisor: Advisor) -> None:
    wanted = ("catalog", "list", "--filter", "params<2M", "--filter", "card=squeezenet*", "--sort=-top1,params")
    cards = [card["name"] for card in json.loads(advisor(*wanted, "--json").out)["cards"]]
    assert cards[0] == "squeezenet_1.1_227"
    shown = [line.split()[0] for line in advisor(*wanted).out.splitlines() if line.startswith("squeezenet")]
    assert shown == cards


@pytest.mark.integration
def test_devices_are_sorted_by_what_is_known(advisor: Advisor) -> None:
    said = advisor("devices", "list", "--filter", "kind=board", "--sort", "-measurements", "--json")
    known = [device["measurements"] for device in json.loads(said.out)["devices"]]
    assert known == sorted(known, reverse=True)


@pytest.mark.integration
def test_a_plan_groups_what_it_shows_by_card_and_form(advisor: Advisor) -> None:
    wanted = ("plan", "--candidates", "mobilenet_v2_1.0_224", "--filter", "threads=1", "--sort=-size")
    said = advisor(*wanted)
    assert "1 threads" in said.out
    forms = [line.split()[0] for line in said.out.splitlines() if " x " in f"{line} " or "int8" in line]
    assert forms
    sizes = [each["size"]["value"] for each in json.loads(advisor(*wanted, "--json").out)["candidates"]]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.integration
def test_a_column_that_does_not_exist_ends_a_search_before_any_work(advisor: Advisor, tmp_path: Path) -> None:
    said = advisor("search", "--budget", "50ms", "--sort", "latenzy")
    assert (said.code, said.out) == (2, "")
    assert "--sort: unknown column 'latenzy' (did you mean 'latency" in said.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.integration
def test_the_answer_of_a_run_shows_the_rows_that_pass(advisor: Advisor, tmp_path: Path) -> None:
    run = str(write_run(tmp_path / "runs").path)
    front = json.loads(advisor("report", run, "--filter", "size>=5MB", "--sort", "latency", "--json").out)["front"]
    assert [row["key"].partition("/")[0] for row in front] == ["fast", "best"]
    said = advisor("report", run, "--filter", "card=nothing")
    assert "Pick: " in said.out
    assert "No row passes the filter." in said.out


@pytest.mark.integration
def test_only_a_list_of_candidates_can_be_sorted_by_export(advisor: Advisor, tmp_path: Path) -> None:
    run = str(write_run(tmp_path / "runs").path)
    listed = advisor("export", run, "--list", "--sort", "size").out
    assert [line[:1] for line in listed.splitlines()] == ["3", "2", "1"]
    said = advisor("export", run, "--to", "bundle", "--sort", "size")
    assert (said.code, "--sort and --filter need --list" in said.err) == (2, True)
