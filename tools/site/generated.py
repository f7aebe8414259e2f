"""Pages that are made from the glossary and from the schemas."""

from __future__ import annotations

import json

from advisor.reporting.glossary import terms
from tools.schemas import SCHEMAS


def glossary() -> str:
    """Return the page of the terms that ``advisor explain`` explains."""
    parts = [
        "# Terms of the reports\n\n`advisor explain TERM` prints these texts. "
        "[The design](../design.md#words) has the words of the code.\n"
    ]
    for term in terms():
        also = f"Also: {', '.join(term.also)}. " if term.also else ""
        parts.append(f"## {term.name}\n\n{term.text}\n\n{also}[More](../{term.page}).\n")
    return "\n".join(parts)


def schemas() -> str:
    """Return the page of the JSON Schemas in ``docs/schemas``."""
    rows = []
    for path in sorted(SCHEMAS.glob("*.schema.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        rows.append(f"| [{path.name}](../schemas/{path.name}) | {schema.get('title', '')} |")
    lines = [
        "# Schemas\n",
        "Every document of `--json` has `schema_version`. Editors check and complete a YAML file by its schema.\n",
        "| JSON Schema | describes |",
        "| --- | --- |",
        *rows,
    ]
    return "\n".join(lines) + "\n"
