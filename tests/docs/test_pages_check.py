"""The check of the pages names what the site lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

import advisor
from tools.checks import pages


def test_the_documentation_has_no_problem() -> None:
    assert list(pages.problems()) == []


def test_a_page_in_no_section_and_an_undocumented_function_are_named(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    (tmp_path / "docs" / "new.md").write_text("# New\n")
    (tmp_path / "docs" / "reference" / "python.md").write_text("::: advisor.search\n")
    (tmp_path / "mkdocs.yml").write_text("nav:\n  - Python: reference/python.md\n")
    monkeypatch.setattr(pages, "PROJECT", tmp_path)
    monkeypatch.setattr(pages, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(advisor, "__all__", ["search", "plan"])
    assert list(pages.problems()) == [
        "docs/new.md: not in the site; add it to 'nav' of mkdocs.yml",
        "docs/reference/python.md: lacks advisor.plan; add '::: advisor.plan'",
    ]
