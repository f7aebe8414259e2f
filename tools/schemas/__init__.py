"""The JSON Schemas of documents and of files that users write, made from the types of the code."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tools.schemas.inputs import inputs
from tools.schemas.outputs import outputs

SCHEMAS = Path(__file__).resolve().parents[2] / "build" / "schemas"
"""Where a checkout has them. They are not in git: a change of a docstring would change thousands of lines."""

DRAFT = "https://json-schema.org/draft/2020-12/schema"


@cache
def schemas() -> Mapping[str, str]:
    """Return the text of each schema by the name of its file."""
    made = inputs() | outputs()
    return {
        f"{name}.schema.json": json.dumps({"$schema": DRAFT, **schema}, indent=1, ensure_ascii=False) + "\n"
        for name, schema in made.items()
    }


def write_schemas(folder: Path = SCHEMAS) -> None:
    """Write every schema into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in schemas().items():
        (folder / name).write_text(text, encoding="utf-8")
