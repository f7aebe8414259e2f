"""Bad input to ``advisor search`` is a clear error and spends nothing; ``--sort`` and ``--filter`` of every table."""

from pathlib import Path

import pytest

from advisor.api import Run
from tests.makers.commands import Advisor, ended, refused
from tests.run_folders import write_run
from tests.tables import with_cases


@pytest.mark.usefixtures("photos")
@with_cases
def test_what_is_wrong_or_new(quick_advisor: Advisor, tmp_path: Path, arguments: str, words: tuple[str, ...]) -> None:
    (tmp_path / "file").write_text("")
    refused(quick_advisor("search", *arguments.split()), *words)
    nothing_spent(tmp_path)


def nothing_spent(tmp_path: Path) -> None:
    assert not (tmp_path / "runs").exists()
    assert not [name for name in ("weights", "artifacts") if (tmp_path / "cache" / name).exists()]


def test_an_unknown_flag_names_the_nearest_and_an_empty_cache_three_ways(quick_advisor: Advisor, photos: Path) -> None:
    said = ended(quick_advisor("search", "--buget", "50ms"), 2)
    assert "--budget" in said.err
    card = "squeezenet_1.1_227"
    said = quick_advisor("search", "--budget", "50ms", "--offline", "--candidates", card, "--data", str(photos))
    refused(said, "squeezenet_1.1_227", "--mirror", "catalog fetch", "index")
    nothing_spent(photos.parent)


def test_what_a_limit_left_is_one_step(quick_advisor: Advisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "runs", manifest={"stopped": {"why": "time_limit"}, "configurations": 10}).path
    stopped = "stopped at the time limit of 5min: 9 configurations not evaluated"
    monkeypatch.setattr("advisor.api.search", lambda **_: Run(run, stopped=stopped))
    for option, times in ((), (1, 0, 0)), (("--json",), (0, 1, 1)):
        said = ended(quick_advisor("search", "--budget", "50ms", *option))
        assert (said.out.count("search --resume"), *map(said.err.count, ("search --resume", "9 conf"))) == times


def test_the_table_and_the_document_have_the_same_rows_sorted_by_what_is_known(advisor: Advisor) -> None:
    wanted = ("catalog", "list", "--filter", "params<2M", "--filter", "card=squeezenet*", "--sort=-top1,params")
    cards = [card["name"] for card in advisor(*wanted, "--json").document["cards"]]
    assert cards[0] == "squeezenet_1.1_227"
    shown = [line.split()[0] for line in advisor(*wanted).out.splitlines() if line.startswith("squeezenet")]
    assert shown == cards
    said = advisor("devices", "list", "--filter", "kind=board", "--sort", "-measurements", "--json")
    known = [device["measurements"] for device in said.document["devices"]]
    assert known == sorted(known, reverse=True)


def test_the_answer_of_a_run_shows_the_rows_that_pass(advisor: Advisor, tmp_path: Path) -> None:
    run = str(write_run(tmp_path / "runs").path)
    front = advisor("report", run, "--filter", "size>=5MB", "--sort", "latency", "--json").document["front"]
    assert [row["key"].partition("/")[0] for row in front] == ["fast", "best"]
    said = advisor("report", run, "--filter", "card=nothing")
    assert "Pick: " in said.out
    assert "No row passes the filter." in said.out


def test_only_a_list_of_candidates_can_be_sorted_by_export(advisor: Advisor, tmp_path: Path) -> None:
    run = str(write_run(tmp_path / "runs").path)
    listed = advisor("export", run, "--list", "--sort", "size").out
    assert [line[:1] for line in listed.splitlines()] == ["3", "2", "1"]
    said = advisor("export", run, "--to", "bundle", "--sort", "size")
    assert (said.code, "--sort and --filter need --list" in said.err) == (2, True)
