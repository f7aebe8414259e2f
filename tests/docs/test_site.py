"""The site builds without a warning, has every command and function, and opens without a network."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from mkdocs.config import load_config
from mkdocs.structure.files import Files
from typer.main import get_command

import advisor
from advisor.cli._main import app
from tests.makers.browsers import Browser, new_context
from tools.site import commands, hooks


@pytest.fixture(scope="module")
def site(starts_processes: None, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` does."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=project, env=environment, capture_output=True, text=True)
    told = done.stdout + done.stderr  # --quiet would make --strict count no warning
    assert (done.returncode, "WARNING" in told) == (0, False), told
    return folder


def test_every_command_has_its_part_in_the_reference() -> None:
    page = commands.page()
    assert [name for name in get_command(app).commands if f"\n## advisor {name}\n" not in page] == []
    assert "\n## advisor catalog fetch\n" in page
    assert "`--min-accuracy PERCENT`" in page


def test_links_lead_to_files_of_the_repository(project: Path) -> None:
    lost = []
    for path in sorted((project / "docs").rglob("*.md")):
        text = re.sub(r"^```.*?^```|`[^`\n]+`", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", text)
        lost += [f"{path.name}: {target}" for target in targets if not (path.parent / target).exists()]
    assert lost == []


def test_a_search_leaves_out_decisions_studies_and_results_but_not_the_pages_that_list_them() -> None:
    names = "search.md decisions/index.md decisions/0001.md studies/a.md benchmarks/results/growth.md"
    pages = [SimpleNamespace(file=SimpleNamespace(src_uri=name), meta={}) for name in names.split()]
    for page in pages:
        hooks.on_page_markdown("text", page, Files([]))
    assert [bool(page.meta) for page in pages] == [False, False, True, True, True]


def test_pages_from_code_and_documents_of_the_repository_are_on_the_site(project: Path) -> None:
    config = load_config(str(project / "mkdocs.yml"))
    config.plugins._current_plugin = "hooks"  # as mkdocs does while it calls one
    placed = hooks.on_files(Files([]), config)
    made = "reference/commands.md notebooks/first-search.md schemas/plan.schema.json"
    for name in (*made.split(), "index.md", "benchmarks/results/accuracy.md"):
        assert placed.get_file_from_path(name), name


@pytest.mark.slow
def test_the_site_has_every_public_name_and_its_links_lead_to_no_file_that_is_left_out(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    missing = [name for name in advisor.__all__ if name != "__version__" and f'id="advisor.{name}"' not in page]
    assert not missing
    assert 'id="advisor-catalog-fetch"' in (site / "reference" / "commands.html").read_text(encoding="utf-8")
    reevaluate = (site / "reevaluate.html").read_text(encoding="utf-8")
    assert 'href="benchmarks/results/growth_counts.html"' in reevaluate
    assert (site / "benchmarks" / "results" / "growth_counts.html").is_file()
    assert 'href="search-metrics.html#what-counts"' in (site / "index.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("query", ["hold-", "--budget", "hold-out"])
def test_words_with_hyphens_are_found_in_a_folder_without_a_request(site: Path, browser: Browser, query: str) -> None:
    page = new_context(browser).new_page()
    said, asked = list[str](), list[str]()
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri() + f"?q={query}")
    page.wait_for_selector(".md-search-result__item")
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    page.context.close()
