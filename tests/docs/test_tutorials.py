"""Each shell block of the tutorials runs as printed on small images, and the notebook from top to bottom."""

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.makers.searches import SMALLEST, environment, linked_cache
from tools.site import notebooks

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"(?:<!-- ends with ([\d or]+) -->\n)?^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SMALL = f"--compressions float32,int8 --threads 1 --candidates {SMALLEST}"
COMMAND = """#!/bin/sh
if [ "$1" != search ]; then exec {python} -m advisor "$@"; fi
case " $* " in *" --data "*) exec {python} -m advisor "$@" {small} --training head;; esac
exec {python} -m advisor "$@" {small}
"""
"""The command as a user has it, except that a search takes the smallest card in two forms."""
QUICK = {"first-answer": 1}
"""Blocks at the beginning of a tutorial that need no run: they run in every test run."""


@dataclass(frozen=True)
class Block:
    """A shell block of a tutorial, and the exit codes that it may end with."""

    tutorial: str
    script: str
    codes: tuple[int, ...]


def tutorials() -> list[str]:
    """The tutorials in the order of the site."""
    text = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    return re.findall(r"tutorials/([\w-]+)\.md", text)


def blocks(tutorial: str) -> list[Block]:
    text = (DOCS / "tutorials" / f"{tutorial}.md").read_text(encoding="utf-8")
    return [
        Block(tutorial, script, tuple(int(code) for code in codes.split(" or ")) if codes else (0,))
        for codes, script in BLOCK.findall(text)
    ]


def run(block: Block, folder: Path, cache: Path) -> None:
    programs = folder / "bin"
    if not programs.is_dir():
        programs.mkdir()
        (programs / "advisor").write_text(COMMAND.format(python=shlex.quote(sys.executable), small=SMALL))
        (programs / "advisor").chmod(0o755)
    path = f"{programs}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.script], cwd=folder, env={**environment(cache), "PATH": path},
        capture_output=True, text=True, timeout=540,
    )  # fmt: skip
    said = f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert done.returncode in block.codes, f"{block.tutorial}:\n{block.script}\n{said}"


def test_the_folder_has_the_tutorials_of_the_site_and_no_other() -> None:
    assert sorted(tutorials()) == sorted(path.stem for path in (DOCS / "tutorials").glob("*.md"))
    assert len(tutorials()) == 5


@pytest.mark.parametrize("tutorial", tutorials())
def test_no_shell_block_is_hidden_from_the_test(tutorial: str) -> None:
    text = (DOCS / "tutorials" / f"{tutorial}.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^```(\S+)$", text, re.MULTILINE)) <= {"sh", "text"}
    assert len(re.findall(r"^```", text, re.MULTILINE)) % 2 == 0
    assert blocks(tutorial)


@pytest.mark.parametrize(("tutorial", "number"), [(name, at) for name, count in QUICK.items() for at in range(count)])
def test_a_block_alone_does_what_it_says(tutorial: str, number: int, starts_processes: None, tmp_path: Path) -> None:
    run(blocks(tutorial)[number], tmp_path, linked_cache(tmp_path / "cache"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_block_runs_in_the_order_of_the_site(warm_cache: Path, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for kind, name in zip(sorted(photos.iterdir()), ("astronaut", "cat", "rocket"), strict=True):
        (tmp_path / "photos" / name).symlink_to(kind)
    for tutorial in tutorials():
        for block in blocks(tutorial):
            run(block, tmp_path, warm_cache)
    assert yaml.safe_load((tmp_path / "advisor.yaml").read_text())["budget"] == "50ms"
    assert (tmp_path / "bundle" / "model.tflite").is_file()


@pytest.mark.slow
def test_every_cell_runs(warm_cache: Path, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat

    for name, value in environment(warm_cache).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(project))
    notebook = nbformat.read(notebooks.NOTEBOOK, as_version=4)
    notebooks.run(notebook, tmp_path)
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    tables = [output.data["text/html"] for output in shown if "text/html" in output.get("data", {})]
    assert sum("<table" in table for table in tables) >= 3
    assert not [output for output in shown if output.output_type == "error" or output.get("name") == "stderr"]
    assert (tmp_path / "runs" / "latest" / "report.html").is_file()


def test_its_page_has_every_cell_and_the_tables() -> None:
    page = notebooks.page()
    cells = json.loads(notebooks.NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert [cell for cell in cells if "".join(cell["source"]) not in page] == []
    assert page.count("<table") >= 3


def test_its_outputs_are_of_one_run_and_name_no_folder_of_a_machine() -> None:
    text = notebooks.NOTEBOOK.read_text(encoding="utf-8")
    assert len(set(re.findall(r"runs/[\w-]+/report\.html", text))) == 1
    assert not re.findall(r"/(?:home|root|tmp|Users)/|stderr|Traceback", text)
