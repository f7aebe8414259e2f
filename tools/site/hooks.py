"""What mkdocs calls while it builds the site.

It adds generated pages and files that lie beside ``docs/``, and mends links between them.
"""

from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.schemas import schemas
from tools.site import commands, generated, links, notebooks

PROJECT = Path(__file__).resolve().parents[2]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from the code,
    and the documents of the repository that are not in ``docs/``.
    """
    made = {
        "reference/commands.md": commands.page(),
        "reference/glossary.md": generated.glossary(),
        "notebooks/first-search.md": notebooks.page(),
    }
    made |= {f"{links.SCHEMAS}/{name}": text for name, text in schemas().items()}
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    for path in _beside_docs():
        files.append(
            File.generated(
                config, links.placed(path.relative_to(PROJECT).as_posix()), abs_src_path=str(path)
            )
        )
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: object) -> str:
    """Return the text with links that are right on the site;
    a link to a file that is not on it becomes text.
    """
    if page.file.src_uri.startswith(("decisions/0", "studies/", "benchmarks/results/")):
        # A search finds how to use the tool; two pages list these.
        page.meta["search"] = {"exclude": True}
    return links.mended(
        markdown, page.file.src_uri, lambda name: files.get_file_from_path(name) is not None
    )


def _beside_docs() -> Iterator[Path]:
    yield from (PROJECT / name for name in links.MOVED)
    yield PROJECT / "benchmarks" / "README.md"
    for ending in ("md", "svg", "csv"):
        yield from sorted((PROJECT / "benchmarks" / "results").glob(f"*.{ending}"))
