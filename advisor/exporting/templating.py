"""Templates of the files in a bundle."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from advisor.core.units import markdown


def render(template: str, package: str = "advisor.exporting", **values: object) -> str:
    """Return a template of a package with its variables; the filter ``md`` escapes untrusted text in Markdown."""
    return _environment(package).get_template(template).render(**values)


def render_html(template: str, package: str, **values: object) -> str:
    """Return a template of HTML with its variables, which are escaped."""
    return _environment(package, escape=True).get_template(template).render(**values)


@cache
def _environment(package: str, escape: bool = False) -> Environment:
    environment = Environment(
        autoescape=escape,  # noqa: S701 (source code and Markdown, unlike HTML, escape where they need it)
        loader=PackageLoader(package),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = markdown
    return environment
