"""Tools for all pages: escaping templates, style sheets and scripts of the package, a content policy, plotly.js."""

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from advisor.core.quantity import Quantity
from advisor.reporting import text
from advisor.reporting.blocks import Block

_SCRIPT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def render_page(
    template: str, styles: Sequence[str], scripts: Sequence[str], packed_scripts: Sequence[str] = (), **values: object
) -> str:
    """Return a page that loads nothing, from the names of its style sheets and the scripts that it contains.

    These may unpack and run the ``packed_scripts``. The ``values`` are variables of the template.
    """
    return render(
        template,
        style=trusted("".join(map(asset, styles))),
        scripts=[trusted(script) for script in scripts],
        policy=content_policy((*scripts, *packed_scripts)),
        **values,
    )


def render(template: str, **values: object) -> Markup:
    """Return a template with its variables: every value is escaped, and a missing one is an error."""
    return trusted(environment().get_template(f"{template}.html.j2").render(**values))


def draw(blocks: Iterable[Block]) -> Markup:
    """Return blocks as HTML."""
    return render("blocks", blocks=list(blocks))


@cache
def environment(package: str = "advisor.reporting") -> Environment:
    """Return the escaping environment for the templates of a package."""
    loader = PackageLoader(package)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["text"] = text
    environment.filters |= {"cell": cell, "figure": text.figure}
    macros = environment.get_template("blocks.html.j2").module if package == __package__ else None
    environment.globals |= {name: getattr(macros, name) for name in ("draw", "photos", "table")} if macros else {}
    return environment


def cell(quantity: Quantity | None, shown: str, ends: str = "") -> Markup:
    """Return a table cell with a figure, its interval and provenance (a function, because there are thousands)."""
    if quantity is None:
        return Markup('<td class="n none">') + shown
    title = f"{quantity.source}{f', n = {quantity.n}' if quantity.n else ''}"
    template = Markup('<td class="n" title="{}">{}<small>{} {}</small>')
    return template.format(title, shown, ends, quantity.provenance.value)


def asset(name: str) -> str:
    """Return a style sheet or script of the package."""
    return (files("advisor.reporting") / "assets" / name).read_text(encoding="utf-8")


@cache
def plotly_script() -> str:
    """Return plotly.js of the plotly package; read as a file, because importing plotly takes longer than the page."""
    spec = find_spec("plotly")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("plotly is not installed: reinstall advisor with its dependencies")
    return (Path(spec.origin).parent / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def trusted(content: str) -> Markup:
    """Mark content that needs no escaping: our own files, plotly, rendered templates, JSON made for scripts."""
    return Markup(content)  # noqa: S704


def json_for_script(value: object) -> str:
    """Return JSON that cannot end its script element, whatever the strings contain."""
    return json.dumps(text.finite(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_SCRIPT)


@cache
def packed(content: str) -> Markup:
    """Return text as base64 of gzip, always the same for the same text; the page's script unpacks it."""
    return trusted(base64.b64encode(gzip.compress(content.encode(), mtime=0)).decode())


def content_policy(scripts: Sequence[str]) -> str:
    """Return a content security policy: only these scripts run, and nothing is loaded."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
