"""Read the names of classes from a text file with one name a line.

The import of a user's model (``catalog/_user_models/``) and the readers of boxes and masks
(``datasets/``) call it. The names become the classes of a user's images, and a run keeps them:
another rule for numbered lines would rename classes of sets that are in use.
"""

import re
from pathlib import Path

from advisor.store._yamlfile import MAX_BYTES, read_text

_NUMBERED = re.compile(r"(\d+)\s*[\s:,;=]\s*(\S.*)")


def read_labels(path: Path, max_bytes: int = MAX_BYTES) -> tuple[str, ...]:
    """Return the names in a file, see :func:`labels_in`; UsageError as of :func:`read_text`."""
    return labels_in(read_text(path, max_bytes))


def labels_in(text: str) -> tuple[str, ...]:
    """Return one name a line, without blanks around it; empty lines are no names.

    If each line begins with its number, counted from 0 or 1, as Teachable Machine writes it (``0
    glass``), the numbers are no part of the names.
    """
    lines = map(str.strip, text.removeprefix("\ufeff").splitlines())
    names = list(filter(None, lines))
    matches = list(map(_NUMBERED.fullmatch, names))
    numbers = [int(match[1]) for match in matches if match]
    from_0 = list(range(len(names)))
    from_1 = list(range(1, len(names) + 1))
    # A single line does not tell whether its number counts the lines.
    if len(names) > 1 and numbers in (from_0, from_1):
        names = [match[2] for match in matches if match]
    return tuple(names)
