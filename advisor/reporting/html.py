"""The self-contained page: it opens offline, loads nothing, and survives a broken section."""

from __future__ import annotations

import base64
import gzip
import logging
from collections.abc import Sequence
from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from advisor.core.quantity import Quantity
from advisor.reporting import text
from advisor.reporting.escape import json_for_script
from advisor.reporting.payload import payload
from advisor.reporting.phrases import limits
from advisor.reporting.sections import SECTIONS, Section
from advisor.reporting.templating import asset, content_policy, page_environment, plotly_script, trusted
from advisor.reporting.view import RunView

_log = logging.getLogger(__name__)


def render_html(view: RunView, sections: Sequence[Section] = SECTIONS) -> str:
    """Return the whole page. A section that fails becomes an error card; the other sections are not affected."""
    environment = _environment()
    shown = [section for section in sections if _is_wanted(section, view)]
    bodies = [(section, _section(environment, section, view)) for section in shown]
    scripts = (asset("advisor.reporting", "unpack.js"), asset("advisor.reporting", "report.js"))
    return environment.get_template("page.html.j2").render(
        view=view,
        limits=limits(view),
        sections=bodies,
        data=trusted(packed(_data(view))),
        library=trusted(packed_plotly()),
        style=trusted(asset("advisor.reporting", "report.css")),
        scripts=[trusted(script) for script in scripts],
        policy=content_policy((*scripts, plotly_script())),
    )


def _is_wanted(section: Section, view: RunView) -> bool:
    """Return whether a section is shown; one whose check fails is shown, and its card tells the error."""
    try:
        return section.wanted(view)
    except Exception:
        return True


def _section(environment: Environment, section: Section, view: RunView) -> Markup:
    try:
        body = environment.get_template(f"{section.id}.html.j2").render(view=view, **section.context(view))
    except Exception as error:
        _log.exception("report: the section '%s' could not be made", section.id)
        body = environment.get_template("error.html.j2").render(section=section, error=error, kind=type(error).__name__)
    return trusted(body)


def _data(view: RunView) -> str:
    """Return the data of the script; if that fails, the error: the page still has every table."""
    try:
        return json_for_script(payload(view))
    except Exception as error:
        _log.exception("report: the plots' data could not be made")
        return json_for_script({"error": f"{type(error).__name__}: {error}"})


@cache
def _environment() -> Environment:
    environment = page_environment("advisor.reporting")
    environment.globals["text"] = text
    environment.filters["cell"] = cell
    return environment


def cell(quantity: Quantity | None, shown: str, ends: str = "") -> Markup:
    """Return a table cell with a figure, its interval and provenance (a function, because there are thousands)."""
    if quantity is None:
        return Markup('<td class="n none">') + shown
    title = f"{quantity.source}{f', n = {quantity.n}' if quantity.n else ''}"
    template = Markup('<td class="n" title="{}">{}<small>{} {}</small>')
    return template.format(title, shown, ends, quantity.provenance.value)


@cache
def packed_plotly() -> str:
    """Return plotly.js as :func:`packed` text, a third of its size."""
    return packed(plotly_script())


def packed(content: str) -> str:
    """Return text as base64 of gzip, always the same for the same text; the page's script unpacks it."""
    return base64.b64encode(gzip.compress(content.encode(), mtime=0)).decode()
