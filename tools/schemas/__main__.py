"""Write every schema: ``python -m tools.schemas``."""

import typer

from tools.schemas import SCHEMAS, schemas

for name, text in schemas().items():
    (SCHEMAS / name).write_text(text, encoding="utf-8")
    typer.echo(f"wrote docs/schemas/{name}")
