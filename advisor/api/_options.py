"""Write request files, which hold the options of a search.

``advisor init`` calls :func:`write_request`. What an option is comes from the tables of ``core``.
"""

import os
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from advisor.core import PLAN, OptionGroup, plain

WIDTH = 100
"""Columns of a comment."""


def write_request(file: str | Path, options: Mapping[str, Any], *, force: bool = False) -> Path:
    """Write a request file: the options that are given,
    and all others as comments with their defaults.

    Args:
        file: the YAML file to write.
        options: value by name of the option; None is an option that was not given.
        force: replace a file that exists.

    Raises:
        UsageError: an option is not valid, the file exists, or its folder does not.
    """
    from advisor.core import UsageError
    from advisor.engine import resolve
    from advisor.store import write_atomically

    path = Path(file)
    if path.exists() and not force:
        raise UsageError(
            f"'{path}' already exists", "give another name, or add --force to replace it"
        )
    if not path.absolute().parent.is_dir():
        raise UsageError(
            f"the folder '{path.parent}' does not exist", "create it, or give another folder"
        )
    chosen = {}
    for name, value in options.items():
        if value is not None:
            chosen[name] = value
    # A request that is refused is not written.
    resolve(chosen)
    write_atomically(path, "\n".join(_list_lines(path, chosen)) + "\n")
    return path


def _find_schema() -> Path:
    """Return the path of the schema of requests.
    There is no file in a checkout that was not installed.
    """
    from advisor.store import shipped_folder

    return (shipped_folder("schemas") / "request.schema.json").resolve()


def _list_lines(path: Path, chosen: Mapping[str, Any]) -> Iterator[str]:
    # Editors read the schema that this comment names: they complete keys and mark mistakes. The
    # path is relative, so it holds for everyone whose environment lies in the same place beside
    # the file.
    schema = _find_schema()
    # A path to nothing would be an error in the editor.
    if schema.is_file():
        address = plain(os.path.relpath(schema, path.resolve().parent))
        yield f"# yaml-language-server: $schema={address}"
    yield (
        f"# Run it with: advisor search --request {plain(path.name)}. Options on the command line"
        " take precedence."
    )
    yield "schema_version: 1"
    for group in OptionGroup:
        yield f"\n# ---- {group} ----"
        for key, option in PLAN.items():
            if option.group == group and option.kept:
                yield ""
                yield from textwrap.wrap(
                    option.help, WIDTH, initial_indent="# ", subsequent_indent="# "
                )
                line = _show_option(key, chosen.get(key, option.default))
                yield line if key in chosen else f"# {line}"


def _show_option(option: str, value: object) -> str:
    import yaml

    # An option without a value stands for its default.
    if value in ("", (), 0) and not isinstance(value, bool):
        return f"{option}:"
    if isinstance(value, list | tuple):
        # The width keeps an option on one line:
        # a folded one would only be commented out in its first line.
        listed = yaml.safe_dump(
            list(value), default_flow_style=True, allow_unicode=True, width=10_000
        )
        return f"{option}: {listed.strip()}"
    # The safe writer of YAML refuses other types, such as paths.
    plain = value
    if not isinstance(value, bool | int):
        plain = str(value)
    return yaml.safe_dump({option: plain}, allow_unicode=True, width=10_000).strip()
