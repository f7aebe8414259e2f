"""Compare the names of classes as people write them, with other blanks or in another case.

Two labels are one class if :func:`plain` is equal for both. A change of it merges or parts classes
of existing data.
"""

import unicodedata


def strip_invisible(text: str) -> str:
    """Return a text without blanks and invisible characters around it."""
    if text.isascii():
        return text.strip()
    start = 0
    end = len(text)
    while start < end and _is_invisible(text[start]):
        start += 1
    while start < end and _is_invisible(text[end - 1]):
        end -= 1
    return text[start:end]


def _is_invisible(character: str) -> bool:
    return character.isspace() or unicodedata.category(character) == "Cf"


def plain(name: str) -> str:
    """Return a class name by which two spellings of one class are equal.

    Its case is folded (``Straße`` and ``STRASSE`` become ``strasse``). Each run of blanks becomes
    one space, none is left at the ends, and accents are composed (NFC).
    """
    words = strip_invisible(name).split()
    return unicodedata.normalize("NFC", " ".join(words)).casefold()
