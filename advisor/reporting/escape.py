"""Untrusted text inside script elements, Markdown and CSV. (HTML itself is escaped by the templates.)"""

from __future__ import annotations

import json
import math
from typing import Any

from advisor.core.escape import markdown as markdown

_SCRIPT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def finite(value: Any) -> Any:
    """Return ``value`` as strict JSON allows it: NaN and infinities become None, keys become text."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def json_for_script(value: object) -> str:
    """Return JSON that cannot end its script element, whatever the strings contain."""
    return json.dumps(finite(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_SCRIPT)


def spreadsheet(value: object) -> object:
    """Return a CSV cell that no spreadsheet interprets as a formula."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value
