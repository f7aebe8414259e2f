"""The JSON Schemas in ``docs/schemas``, made from the types of the code."""

import json
from pathlib import Path

from tools.schemas.inputs import inputs
from tools.schemas.outputs import outputs

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, str]:
    """Return the text of each schema by the name of its file."""
    made = inputs() | outputs()
    return {
        f"{name}.schema.json": json.dumps({"$schema": DRAFT, **schema}, indent=1, ensure_ascii=False) + "\n"
        for name, schema in made.items()
    }
