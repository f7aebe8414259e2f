"""The notebook runs from top to bottom, and is on the site with its outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.engine.conftest import environment, shared_folder, warm_cache
from tools.site import notebooks

__all__ = ["shared_folder", "warm_cache"]


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
