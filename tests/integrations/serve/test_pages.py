"""The pages by themselves, without a browser."""

import os
import re
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest

from advisor.engine import Snapshot
from advisor.engine._remaining import write_snapshot
from advisor.integrations.serve import _pages as pages
from advisor.reporting import RunView, write_all
from advisor.reporting._explanation import opening_lines
from advisor.reporting._pages import keep_options
from advisor.store import RunFolder
from tests.integrations.serve.client import Client
from tests.integrations.serve.shown import ENDED
from tests.reporting.test_html import with_plain_spaces
from tests.reporting.views import empty_view
from tests.run_folders import write_run

pytestmark = pytest.mark.integration


def listed(page: str) -> list[str]:
    """Return the kinds of the runs in the list: the end of their names."""
    return re.findall(r"<bdi>\d+-\d+-(\w+)</bdi></a></th>", page)


@pytest.fixture
def three(runs: Path) -> list[RunFolder]:
    """Three runs: a finished one, one that was interrupted, a damaged one."""
    finished = write_run(runs, manifest=ENDED, name="a", request={"budget": "10ms"})
    write_all(RunView.load(finished), finished.path)
    interrupted = write_run(runs, manifest={"configurations": 9}, name="b")
    write_all(RunView.load(interrupted), interrupted.path)
    damaged = write_run(runs, manifest=ENDED, name="c")
    (damaged.path / "request.yaml").write_text("[", encoding="utf-8")
    return [finished, interrupted, damaged]


def test_an_empty_folder_says_what_to_do_and_one_that_is_gone_is_named(client: Client, runs: Path) -> None:
    assert "advisor search" in client.page("/")
    runs.rmdir()
    refused = client.get(f"{client.access.root}/")
    assert (refused.status_code, str(runs) in refused.text, "still exist" in refused.text) == (400, True, True)


@pytest.mark.usefixtures("three")
def test_the_list_is_sorted_and_filtered(client: Client, runs: Path) -> None:
    assert set(listed(client.page("/"))) == {"a", "b", "c"}
    assert listed(client.page("/?sort=latency")) == ["a", "b", "c"]
    assert listed(client.page("/?sort=latency&turned=1")) == ["c", "b", "a"]
    assert listed(client.page("/?state=interrupted")) == ["b"]
    assert listed(client.page("/?words=10MS budget")) == ["a"]
    assert "No run matches" in client.page("/?words=nothing")
    assert listed(client.page("/?sort=nonsense&state=nonsense")) == []
    write_run(runs, empty_view().evaluations, manifest=ENDED, name="d")
    assert "<small>every configuration was evaluated</small>" in client.page("/"), "not: no answer yet"


@pytest.mark.usefixtures("three")
def test_a_long_list_has_pages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "ROWS", 2)
    first, second = client.page("/?sort=latency&words=-"), client.page("/?sort=latency&words=-&page=2")
    assert (listed(first), listed(second)) == (["a", "b"], ["c"])
    assert 'href="?words=-&amp;sort=latency&amp;page=2">Next' in first
    assert 'href="?words=-&amp;sort=latency&amp;page=1">Previous' in second
    assert "Next" not in second
    assert [listed(client.page(f"/?sort=latency&page={page}")) for page in ("99", "nonsense")] == [["c"], ["a", "b"]]


def test_each_run_has_a_page(client: Client, three: list[RunFolder]) -> None:
    copied = shutil.copytree(three[0].path, three[0].path.with_name("copied"))
    paths = [*(run.path for run in three), copied]
    finished, interrupted, damaged, copy = (client.page(f"/runs/{path.name}/") for path in paths)
    lines = opening_lines(RunView.load(three[0]))
    assert len(lines) == 4
    assert f'<p class="opening">{lines[0].replace(str(three[0].path), str(copied))}</p>' in copy
    assert all(f'<p class="opening">{with_plain_spaces(keep_options(line))}</p>' in finished for line in lines)
    assert "<small>measured: 1 CPU thread of test, 2 cores</small>" in finished
    assert "fast int8" in finished
    assert "Try a photograph" in finished
    assert f'advisor search <span class="option">--resume</span> {three[1].path}<' in interrupted
    assert "3 of 9 configurations" in interrupted
    assert ("request.yaml cannot be read" in damaged, "<iframe" in damaged) == (True, False)
    assert all("data-live" not in page for page in (finished, interrupted, damaged))


def test_a_running_search_shows_the_answer_so_far(client: Client, runs: Path) -> None:
    run = write_run(runs, manifest={"configurations": 9})
    held = run.hold()
    write_all(RunView.load(run, running=True), run.path)
    write_snapshot(run, Snapshot("training head of <b>", 3, 9, 75.0, 0.4))
    listing = client.page("/")
    page = client.page(f"/runs/{run.path.name}/")
    assert "data-live" in page
    held.release()
    shown = (
        "the answer so far",
        "best int8",
        "3 of 9 configurations have a result: 3 ok",
        "Now: training head of &lt;b&gt;",
    )
    assert [words for words in (*shown, "40 %, <b>about 1 min 15 s left") if words not in page] == []
    assert "3 of 9, about 1 min 15 s left" in listing


def test_names_are_escaped_and_addresses_hold_any(client: Client, runs: Path) -> None:
    write_run(runs, manifest=ENDED, request={"data": "<img src=x>"})
    assert "&lt;img src=x&gt;" in client.page("/")
    run = write_run(runs, manifest=ENDED)
    write_all(RunView.load(run), run.path)
    run.path.rename(runs / "a?b#c d")
    page = client.page(f"/runs/{quote('a?b#c d')}/")
    (report,) = set(re.findall(r'(/report/[^"]+)"', page))
    assert client.get(report).status_code == 200
    assert f"{quote('a?b#c d')}/bundle.zip" in page


def test_two_runs_are_compared(client: Client, three: list[RunFolder]) -> None:
    names = [run.path.name for run in three]
    assert "Before" in client.page("/compare")
    page = client.page(f"/compare?before={names[0]}&after={names[1]}")
    assert "<bdi>budget</bdi></th><td><bdi>10ms</bdi></td><td><bdi>50ms</bdi>" in page
    assert "<td>4.00 ms</td><td>20.0 ms</td>" in page
    refused = client.get(f"{client.access.root}/compare", params={"before": names[0], "after": names[2]})
    assert (refused.status_code, "damaged" in refused.text) == (400, True)


def test_a_missing_run_and_a_missing_report_are_named(client: Client, runs: Path) -> None:
    name = write_run(runs).path.name
    assert "there is no run" in client.get(f"{client.access.root}/runs/nothing/").text
    refusal = client.get(f"{client.access.report(name)}/{name}").text
    assert re.search(rf"has no report.* \S+/{name} writes it", refusal, re.DOTALL)


def test_a_run_that_is_not_finished_is_not_re_evaluated(client: Client, three: list[RunFolder]) -> None:
    refused = client.change(f"/runs/{three[1].path.name}/reevaluate", b"device=")
    assert (refused.status_code, "only finished runs" in refused.text) == (400, True)


def test_a_photograph_that_is_too_large_is_refused(client: Client, three: list[RunFolder]) -> None:
    path = f"/runs/{three[0].path.name}/photograph"
    assert "larger than 33.6\u00a0MB" in client.change(path, **{"content-length": "99999999"}).text
    assert "larger than 33.6\u00a0MB" in client.change(path, (bytes(2**20) for _ in range(33))).text  # type: ignore[arg-type]


def test_a_run_whose_name_is_no_text_is_shown_and_the_other_pages_work(client: Client, three: list[RunFolder]) -> None:
    strange = Path(os.fsdecode(os.fsencode(three[0].path.parent) + b"/strange-\xff"))
    shutil.copytree(three[0].path, strange)
    page = client.page("/")
    assert listed(page) == ["c", "b", "a"]
    assert "<bdi>strange-\\udcff</bdi> <small>rename its folder" in page
    assert "strange" not in client.page(f"/runs/{three[0].path.name}/")
    assert "strange" not in client.page("/compare")
