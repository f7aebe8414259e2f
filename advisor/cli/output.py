"""What several commands print alike: JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer


def print_json(document: Mapping[str, Any]) -> None:
    """Write a document to standard output, for programs: ASCII, so that no terminal or file name can break it.

    Raises:
        ValueError: a figure is not finite, which JSON cannot say.
    """
    import json

    typer.echo(json.dumps(document, indent=1, allow_nan=False))
