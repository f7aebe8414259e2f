"""The notebook runs from top to bottom, and shows tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.conftest import environment, shared_folder, warm_cache

__all__ = ["shared_folder", "warm_cache"]


@pytest.mark.slow
def test_every_cell_runs(project: Path, warm_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    for name, value in environment(warm_cache).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(project))
    notebook = nbformat.read(project / "docs" / "notebooks" / "first-search.ipynb", as_version=4)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    tables = [output.data["text/html"] for output in shown if "text/html" in output.get("data", {})]
    assert sum("<table" in table for table in tables) >= 3
    assert not [output for output in shown if output.output_type == "error" or output.get("name") == "stderr"]
    assert (tmp_path / "runs" / "latest" / "report.html").is_file()


def test_it_is_kept_without_outputs(project: Path) -> None:
    import json

    notebook = json.loads((project / "docs" / "notebooks" / "first-search.ipynb").read_text(encoding="utf-8"))
    assert not any(cell.get("outputs") for cell in notebook["cells"])
