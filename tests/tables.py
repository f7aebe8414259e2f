"""Tables of cases that stand as YAML beside the tests that read them."""

from pathlib import Path
from typing import Any

import yaml


def read_table(test: str, name: str) -> Any:
    """Return the content of a file beside a test (its ``__file__``)."""
    return yaml.safe_load(Path(test).with_name(name).read_text(encoding="utf-8"))
