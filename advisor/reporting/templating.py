"""Tools for all pages: escaping templates, style sheets and scripts of the package, a content policy, plotly.js."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def page_environment(package: str) -> Environment:
    """Return the templates of a package: every value is escaped, and a missing one is an error."""
    return Environment(
        loader=PackageLoader(package, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def asset(package: str, name: str) -> str:
    """Return a style sheet or script of a package."""
    return (files(package) / "assets" / name).read_text(encoding="utf-8")


@cache
def plotly_script() -> str:
    """Return plotly.js of the plotly package; read as a file, because importing plotly takes longer than the page.

    Raises:
        ModuleNotFoundError: plotly is not installed.
    """
    spec = find_spec("plotly")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("plotly is not installed: reinstall advisor with its dependencies")
    return (Path(spec.origin).parent / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def trusted(content: str) -> Markup:
    """Mark content that needs no escaping: our own files, plotly, rendered templates, JSON made for scripts."""
    return Markup(content)  # noqa: S704


def content_policy(scripts: Sequence[str]) -> str:
    """Return a content security policy: only these scripts run, and nothing is loaded."""
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    rules: Mapping[str, str] = {
        "default-src": "'none'",
        "script-src": hashes or "'none'",
        "style-src": "'unsafe-inline'",
        "img-src": "data: blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
