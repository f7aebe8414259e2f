"""Write a request file with a comment for every option."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

WIDTH = 100
"""Columns of a comment."""


def write_request(
    file: str | Path, options: Mapping[str, Any], described: Mapping[str, Mapping[str, str]], *, force: bool = False
) -> Path:
    """Write a request file: the options that are given, and all others as comments with their defaults.

    Args:
        file: the YAML file to write.
        options: value by name of the option; None is an option that was not given.
        described: what each option means, by its name, in groups with a title.
        force: replace a file that exists.

    Raises:
        UsageError: an option is not valid, the file exists, or its folder does not.
    """
    from advisor.core.errors import UsageError
    from advisor.engine.question import resolve
    from advisor.store.files import write_atomically

    path = Path(file)
    if path.exists() and not force:
        raise UsageError(f"'{path}' already exists", "give another name, or add --force to replace it")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"the folder '{path.parent}' does not exist", "create it, or give another folder")
    given = {name: value for name, value in options.items() if value is not None}
    resolve(given)
    write_atomically(path, "\n".join(_lines(path.name, given, described)) + "\n")
    return path


def _lines(name: str, given: Mapping[str, Any], described: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    from advisor.engine.question.options import Options
    from advisor.store.files import shipped_folder

    defaults = {option.name: option.default for option in fields(Options)}
    # Editors read the schema that this comment names: they complete keys and mark mistakes.
    yield f"# yaml-language-server: $schema={shipped_folder('schemas') / 'request.schema.json'}"
    yield f"# Run it with: advisor search --request {name}. Options on the command line take precedence."
    yield "schema_version: 1"
    for title, texts in described.items():
        yield f"\n# ---- {title} ----"
        for option, text in texts.items():
            if option in defaults:
                yield ""
                yield from textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ")
                line = _line(option, given.get(option, defaults[option]))
                yield line if option in given else f"# {line}"


def _line(option: str, value: object) -> str:
    import yaml

    if value in ("", (), 0) and not isinstance(value, bool):
        return f"{option}:"
    if isinstance(value, list | tuple):
        listed = yaml.safe_dump(list(value), default_flow_style=True, allow_unicode=True, width=10_000)
        return f"{option}: {listed.strip()}"
    plain = value if isinstance(value, bool | int) else str(value)
    return yaml.safe_dump({option: plain}, allow_unicode=True, width=10_000).strip()
