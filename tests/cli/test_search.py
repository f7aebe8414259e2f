"""Bad input to ``advisor search``: a clear error with a hint, exit code 2, nothing spent, nothing lost.

``--sort`` and ``--filter`` of every command that prints a table.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from PIL import Image

from advisor.cli.main import app
from tests.cli.conftest import Advisor, ended, refused
from tests.cli.test_plan import commands
from tests.run_folders import write_run


def nothing_spent(tmp_path: Path) -> None:
    assert not (tmp_path / "runs").exists()
    assert not [name for name in ("weights", "artifacts") if (tmp_path / "cache" / name).exists()]


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ("50", ("'50' has no unit", "--budget 50ms")),
        ("-5ms", ("'-5ms' is not above zero",)),
        ("0ms", ("'0ms' is not above zero",)),
        ("50parsec", ("unknown unit 'parsec'",)),
    ],
)
def test_a_budget_that_is_none(advisor: Advisor, tmp_path: Path, budget: str, words: tuple[str, ...]) -> None:
    refused(advisor("search", f"--budget={budget}"), *words)
    nothing_spent(tmp_path)


def test_a_data_folder_that_is_missing_names_the_nearest(advisor: Advisor, photos: Path, tmp_path: Path) -> None:
    refused(advisor("search", "--budget", "50ms", "--data", str(photos.parent / "photo")), "photo")
    nothing_spent(tmp_path)


def test_an_empty_data_folder(advisor: Advisor, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused(advisor("search", "--data", "empty"), "empty")
    nothing_spent(tmp_path)


def test_one_class(advisor: Advisor, photos: Path, tmp_path: Path) -> None:
    shutil.rmtree(photos / "blue things")
    refused(advisor("search", "--data", "photos"), "red things")
    nothing_spent(tmp_path)


def test_a_class_with_fewer_than_eight_images_is_named(advisor: Advisor, photos: Path, tmp_path: Path) -> None:
    for path in list((photos / "blue things").iterdir())[:5]:
        path.unlink()
    refused(advisor("search", "--data", "photos"), "blue things", "5")
    nothing_spent(tmp_path)


def test_more_than_a_fifth_of_the_images_unreadable(advisor: Advisor, photos: Path, tmp_path: Path) -> None:
    for count in range(8):
        (photos / "red things" / f"bad{count}.jpg").write_bytes(b"")
    refused(advisor("search", "--data", "photos"), "8", "28")
    nothing_spent(tmp_path)


def test_an_output_folder_that_cannot_be_written(advisor: Advisor, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(advisor("search", "--budget", "50ms", "--out", "file/runs"), "file/runs", "cannot write to the folder")


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--candidates", "mobilnet_v2", "mobilenet_v2"),
        ("--compressions", "int9", "did you mean 'int8'"),
        ("--device", "galaxi-s24", "unknown device 'galaxi-s24' (did you mean 'galaxy-s24'?)"),
    ],
)
def test_what_is_unknown_names_the_nearest(
    advisor: Advisor, tmp_path: Path, option: str, value: str, words: str
) -> None:
    refused(advisor("search", option, value), words)
    nothing_spent(tmp_path)


def test_no_network_and_an_empty_cache_names_the_weights_and_three_ways(advisor: Advisor, photos: Path) -> None:
    card = "squeezenet_1.1_227"
    said = advisor("search", "--budget", "50ms", "--offline", "--candidates", card, "--data", str(photos))
    refused(said, "squeezenet_1.1_227", "--mirror", "catalog fetch", "index")


def test_a_resumed_folder_that_is_no_run(advisor: Advisor) -> None:
    refused(advisor("search", "--resume", "nowhere"), "nowhere", "not a run folder")


def test_an_unknown_flag_names_the_nearest(advisor: Advisor) -> None:
    said = ended(advisor("search", "--buget", "50ms"), 2)
    assert "--budget" in said.err


def test_a_image_that_is_not_one_is_not_a_class(advisor: Advisor, tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "flat.jpg")
    refused(advisor("search", "--data", "flat.jpg"), "flat.jpg")


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
    cards = [card["name"] for card in advisor(*wanted, "--json").document["cards"]]
    assert cards[0] == "squeezenet_1.1_227"
    shown = [line.split()[0] for line in advisor(*wanted).out.splitlines() if line.startswith("squeezenet")]
    assert shown == cards


@pytest.mark.integration
def test_devices_are_sorted_by_what_is_known(advisor: Advisor) -> None:
    said = advisor("devices", "list", "--filter", "kind=board", "--sort", "-measurements", "--json")
    known = [device["measurements"] for device in said.document["devices"]]
    assert known == sorted(known, reverse=True)


@pytest.mark.integration
def test_a_plan_groups_what_it_shows_by_card_and_form(advisor: Advisor) -> None:
    wanted = ("plan", "--candidates", "mobilenet_v2_1.0_224", "--filter", "threads=1", "--sort=-size")
    said = advisor(*wanted)
    assert "1 threads" in said.out
    forms = [line.split()[0] for line in said.out.splitlines() if " x " in f"{line} " or "int8" in line]
    assert forms
    sizes = [each["size"]["value"] for each in advisor(*wanted, "--json").document["candidates"]]
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
    front = advisor("report", run, "--filter", "size>=5MB", "--sort", "latency", "--json").document["front"]
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
