"""The site: its links, what it lacks, the examples for ``jq``, and command lines that the commands take."""

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import advisor
from advisor.core import Status
from tests.builders import configuration, evaluation
from tests.makers.commands import called, parse
from tests.measurement import small_models
from tests.places import PROJECT
from tests.requirements import skip_or_fail
from tests.run_folders import candidates, write_run
from tests.tables import read_table, with_cases
from tools.checks import pages
from tools.site.links import mended


@with_cases
def test_a_link_is_mended(place: str, text: str, expected: str) -> None:
    assert mended(text, place, lambda name: name != "LICENSE") == expected


def test_the_documentation_has_no_problem() -> None:
    assert list(pages.problems()) == []


def test_strange_pages_and_versions_are_named(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    (tmp_path / "docs" / "new.md").write_text("# New\n")
    (tmp_path / "docs" / "reference" / "python.md").write_text("::: advisor.search\n")
    (tmp_path / "CHANGELOG.md").write_text("# C\n\n## 9.1.0 - 2027\n" + "- line\n" * 61)
    monkeypatch.setattr(pages, "PROJECT", tmp_path)
    monkeypatch.setattr(pages, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(advisor, "__all__", ["search", "plan"])
    monkeypatch.setattr(advisor, "__version__", "9.2.0")
    (tmp_path / "docs" / "decisions").mkdir()
    (tmp_path / "docs" / "decisions" / "README.md").touch()
    (tmp_path / "mkdocs.yml").write_text("nav:\n  - Python: reference/python.md\n  - A: decisions/README.md\n")
    assert list(pages.problems()) == read_table(__file__, "problems.yaml")
    unreleased = "\n## Unreleased\n" + "- line\n" * 60 + "\n## 9.2.0 - 2028\n"
    assert [text.split(";")[0] for text in pages.changelog_problems(unreleased, "9.2.0")] == [
        "CHANGELOG.md: 'Unreleased' has 61 lines, at most 60"
    ]


def test_long_decisions_many_pages_and_old_numbers_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    current, merged, absent, unlisted = "0002", "0050", "0051", "0036"
    decisions, studies = tmp_path / "decisions", tmp_path / "studies"
    decisions.mkdir()
    studies.mkdir()
    for number in range(1, 37):
        (decisions / f"{number:04}-a.md").write_text("line\n" * (26 if number == 1 else 10))
    for number in range(13):
        (studies / f"{number:02}.md").write_text(f"Decisions {merged}, decision {absent} and decisions/{current}-a.md")
    rows = [f"| [{number:04}]({number:04}-a.md) | (../studies/{number:02}.md) |" for number in range(36)]
    (decisions / "README.md").write_text("\n".join([*rows, f"| {merged} | [{current}]({current}-a.md) | |"]))
    monkeypatch.setattr(pages, "PROJECT", tmp_path)
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    monkeypatch.setattr(pages, "READERS", ("studies",))
    assert list(pages.decision_problems()) == [
        "docs/decisions: 36 pages, at most 35; merge those of one subject",
        "docs/studies: 13 pages, at most 12; add a section to the page of the topic",
        "docs/decisions/0001-a.md: 26 lines, not 10 to 25; figures go to a study",
        f"docs/decisions/{unlisted}-a.md: not in docs/decisions/README.md",
    ]
    assert list(pages.reference_problems())[:2] == [
        "studies/00.md: names decision 0050; now 0002",
        "studies/00.md: names decision 0051; there is no such page",
    ]


PAGE = pages.DOCS / "reference" / "json.md"
EXAMPLES = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
MEASURED = "advisor (benchmark|reevaluate)"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with two runs, of which the later one is worse, and a model."""
    changed = [evaluation("best", "int8", accuracy=92, half_width=1, latency=60, size=6e6), *candidates()[1:]]
    skipped = replace(changed[0], configuration=configuration("large", "int8", 1), status=Status.SKIPPED, reason="slow")
    before = write_run(tmp_path / "runs", name="before").path
    before.rename(before.with_name("before"))
    write_run(tmp_path / "runs", [*changed, skipped], name="after")
    (tmp_path / "model.tflite").write_bytes(small_models.classifier())
    return tmp_path


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(text, id=str(number), marks=pytest.mark.slow if re.search(MEASURED, text) else ())
        for number, text in enumerate(EXAMPLES)
    ],
)
def test_an_example_prints_something(example: str, starts_processes: None, runs: Path) -> None:
    if shutil.which("jq") is None:
        skip_or_fail("jq is not installed")
    command, _, query = example.rpartition("jq ")
    text = ""
    if command:
        words = shlex.split(command.rstrip("| "))[1:]
        if " benchmark " in command and " --device " not in command:
            # A measurement of this machine is short, and does not wait for a quiet one.
            words += ["--effort", "search", "--force"]
        text = called(tuple(words), runs, {**os.environ, "ADVISOR_CACHE_DIR": str(runs / "cache")}).out
    done = subprocess.run(["bash", "-euc", f"jq {query}"], cwd=runs, input=text, capture_output=True, text=True)
    assert (done.returncode, bool(done.stdout.strip())) == (0, True), done.stderr
    assert "null" not in done.stdout


FENCE = re.compile(r"^ *```(?:sh|console)?\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def shown() -> list[tuple[str, str]]:
    """Page and line of each command line in a block of shell commands."""
    folders = (PROJECT / "docs", PROJECT / "docs" / "tutorials", PROJECT / "docs" / "reference")
    pages = [PROJECT / "README.md", *(page for folder in folders for page in sorted(folder.glob("*.md")))]
    found = []
    for page in pages:
        for block in FENCE.findall(page.read_text(encoding="utf-8").replace("\\\n", " ")):
            lines = (line.strip().removeprefix("$ ") for line in block.splitlines())
            found += [(page.name, line) for line in lines if re.match(r"advisor [a-z]", line)]
    return found


@pytest.mark.parametrize(("page", "line"), shown())
def test_the_command_takes_it(page: str, line: str) -> None:
    parse(shlex.split(re.split(r"[|>&;]", line)[0], comments=True))
