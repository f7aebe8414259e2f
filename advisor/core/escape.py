"""Untrusted text on one line and inside Markdown: users choose the names of classes, files and cards."""

from __future__ import annotations

import re
import unicodedata

_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_JOINERS = "\u200c\u200d"
"""Invisible, but several scripts and emoji need them."""

_ENTITIES = str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;"})
_MARKDOWN = re.compile(r"([\\`*_{}\[\]#!|~$])")


def plain(text: object) -> str:
    """Return ``text`` on one line without characters that steer a terminal or reorder the line.

    Names of classes, files and cards are untrusted: an escape sequence in one must not reach the terminal, nor a
    bidirectional override the words around it.
    """
    one_line = " ".join(str(text).split())
    return "".join("\ufffd" if _hidden(char) else char for char in one_line)


def visible(text: str) -> str:
    """Return ``text`` with characters that steer a terminal or reorder a line written as escapes; lines stay lines."""
    return "".join(
        char.encode("unicode_escape").decode("ascii") if char != "\n" and _hidden(char) else char for char in text
    )


def _hidden(char: str) -> bool:
    return char not in _JOINERS and unicodedata.category(char) in _HIDDEN


def markdown(text: object) -> str:
    """Return ``text`` on one line with the signs of Markdown and HTML escaped; an ``@`` mentions nobody."""
    return _MARKDOWN.sub(r"\\\1", plain(text)).translate(_ENTITIES).replace("@", "@\u200b")
