"""The JSON Schemas of documents and of files that users write, made from the types of the code.

They are not in git: ``python -m tools.schemas``, the checks, the site and the wheel make them.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tools.schemas.inputs import inputs
from tools.schemas.outputs import ROOTS, make_output

SCHEMAS = Path(__file__).resolve().parents[2] / "build" / "schemas"
"""Where a checkout has them. They are not in git:
a change of a docstring would change thousands of lines.
"""

DRAFT = "https://json-schema.org/draft/2020-12/schema"


@cache
def make_schema(name: str) -> str:
    """Return the text of one schema by its name, without the work for the others."""
    made = make_output(name) if name in ROOTS else inputs()[name]
    return json.dumps({"$schema": DRAFT, **made}, indent=1, ensure_ascii=False) + "\n"


def schemas() -> Mapping[str, str]:
    """Return the text of each schema by the name of its file."""
    return {f"{name}.schema.json": make_schema(name) for name in (*inputs(), *ROOTS)}


def write_schemas(folder: Path = SCHEMAS) -> None:
    """Write every schema into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in schemas().items():
        (folder / name).write_text(text, encoding="utf-8")
