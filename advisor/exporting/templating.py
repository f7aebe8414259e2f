"""Templates of the files in a bundle."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from advisor.core.escape import markdown


def render(template: str, **values: object) -> str:
    """Return a template with its variables; the filter ``md`` escapes untrusted text in Markdown."""
    return _environment().get_template(template).render(**values)


def render_html(template: str, **values: object) -> str:
    """Return a template of HTML with its variables, which are escaped."""
    return _environment(escape=True).get_template(template).render(**values)


@cache
def _environment(escape: bool = False) -> Environment:
    environment = Environment(
        autoescape=escape,  # noqa: S701 (source code and Markdown, unlike HTML, escape where they need it)
        loader=PackageLoader("advisor.exporting"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = markdown
    return environment
