"""Find the shipped catalogue files and the user's own, and add a card to a file without changing the rest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from advisor.core.errors import UsageError
from advisor.store.files import shipped_folder

_NEW_FILE = """\
# Your own model cards: `advisor search` and `advisor catalog` read this file beside the shipped ones.
family: own
paper: not stated
licence: not stated
cards:
"""


def shipped_files() -> tuple[Path, ...]:
    """Return the shipped ``catalogs/*.yaml``, in the order of their names."""
    return tuple(sorted(shipped_folder("catalogs").glob("*.yaml")))


def config_root() -> Path:
    """Return the user's folder of settings: ``$ADVISOR_CONFIG_DIR``, or where the platform keeps them."""
    chosen = os.environ.get("ADVISOR_CONFIG_DIR")
    return Path(chosen).expanduser() if chosen else user_config_path("advisor")


def user_catalogue_file() -> Path:
    """Return the user's own catalogue file, whether or not it is there."""
    return config_root() / "catalog.yaml"


def with_card(file: Path, entry: Mapping[str, Any]) -> str:
    """Return the text of the catalogue ``file`` (a new one where there is none) with ``entry`` as its last card.

    Comments and the order of keys stay as they are.

    Raises:
        UsageError: the file is not a catalogue whose last key is a ``cards`` list of one card a block.
    """
    if not file.is_file():
        return _NEW_FILE + _block(entry, 2)
    text = file.read_text(encoding="utf-8")
    return text.rstrip("\n") + "\n" + _block(entry, _column(file))


def _column(file: Path) -> int:
    """Return the column of the dashes of ``cards``, which must be the file's last key."""
    import yaml

    from advisor.store.yamlfile import read_yaml

    root = read_yaml(file).root
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    key, cards = pairs[-1] if pairs else (None, None)
    if key is None or key.value != "cards" or not isinstance(cards, yaml.SequenceNode) or cards.flow_style:
        raise UsageError(
            f"{file}: a card can be added where 'cards' is the last key, with a dash before each card",
            "move 'cards' to the end, or name another file with --into",
        )
    return int(cards.start_mark.column)


def _block(entry: Mapping[str, Any], column: int) -> str:
    import yaml

    dumped = yaml.safe_dump([dict(entry)], sort_keys=False, allow_unicode=True, width=110)
    return "".join(f"{' ' * column}{line}\n" for line in dumped.splitlines())
