"""Read which folders of a path the user wants: ``DIR/{train,test}`` or ``DIR/!(backup|tmp)``.

``_layouts.py`` asks before it lists a path. Questions of ``_folder_questions.py`` offer such paths
as answers, so both must be able to read each other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from advisor.datasets._folder_questions import Names

_CHOSEN_FOLDERS = re.compile(r"\{([^{}]+,[^{}]+)\}")  # {train,test}
_LEFT_OUT_FOLDERS = re.compile(r"!\((.+)\)")  # !(backup|tmp)


@dataclass(frozen=True)
class ChosenFolders:
    """The folders of a path that the user wants to be read."""

    only: frozenset[str] = frozenset()  # names of the upper folders that count; all if it is empty
    left_out: frozenset[str] = frozenset()  # names of folders that do not count, wherever they are

    def includes_names(self, names: Names) -> bool:
        """Return whether an image or a folder counts, by its folders and its own name."""
        if self.only and names[0] not in self.only:
            return False
        return self.left_out.isdisjoint(names)


def read_choice(path: Path) -> ChosenFolders:
    """Return the folders that the last name of a path chooses."""
    # A folder may really have such a name.
    if path.exists():
        return ChosenFolders()
    chosen = _CHOSEN_FOLDERS.fullmatch(path.name)
    if chosen:
        return ChosenFolders(only=frozenset(chosen[1].split(",")))
    left_out = _LEFT_OUT_FOLDERS.fullmatch(path.name)
    if left_out:
        return ChosenFolders(left_out=frozenset(left_out[1].split("|")))
    return ChosenFolders()
