"""A notebook as a page: its cells with the outputs that are kept in it.

``hooks.py`` makes the pages. ``python -m tools.site.notebooks`` runs the notebook again and keeps
what it prints.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "notebooks" / "first-search.ipynb"
_STYLED_BY_PANDAS = re.compile(r'<style.*?</style>\n?| border="1" class="dataframe"', re.DOTALL)


def page(path: Path = NOTEBOOK) -> str:
    """Return a notebook as Markdown, with a link to download it."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = [part for cell in cells for part in _parts(cell)]
    download = f'<a href="{path.name}" download>Download this notebook</a>'
    return "\n\n".join([parts[0], download, *parts[1:]]) + "\n"


def keep_outputs(path: Path = NOTEBOOK) -> None:
    """Run the notebook in an empty folder, and write it with its outputs."""
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        run(notebook, Path(folder))
    for cell in notebook.cells:
        cell.metadata.clear()  # when each cell ran
        for output in cell.get("outputs", ()):
            if "text/html" in output.get("data", {}):
                # The same once more, with folders of this machine.
                output.data.pop("text/plain", None)
    nbformat.write(notebook, path)


def run(notebook: Any, folder: Path) -> None:
    """Run every cell in a folder; each cell then has its outputs."""
    from nbclient import NotebookClient

    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()


def _parts(cell: dict[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    yield from (_shown(output) for output in cell["outputs"])


def _shown(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if html := "".join(data.get("text/html", ())):
        return f'<div class="output">{_STYLED_BY_PANDAS.sub("", html)}</div>'
    text = "".join(output.get("text") or data["text/plain"])
    return f"```text\n{text.rstrip()}\n```"


if __name__ == "__main__":
    keep_outputs()
