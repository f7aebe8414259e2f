"""Read untrusted XML within limits: elements with their text and line, no document type, so no entities."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from advisor.store.yamlfile import read_bytes

MAX_BYTES = 2**24
MAX_DEPTH = 32
MAX_ELEMENTS = 250_000
"""Elements of a file: 10,000 boxes of Pascal VOC have 120,000."""

MAX_TEXT = 2**14
"""Characters of an element."""


@dataclass
class Element:
    """An element with its line, its own text and the elements directly in it."""

    name: str
    line: int
    text: str = ""
    inner: list[Element] = field(default_factory=list)

    def all(self, name: str) -> list[Element]:
        """Return the elements of this name directly in it."""
        return [element for element in self.inner if element.name == name]

    def first(self, name: str) -> Element:
        """Return the first element of this name directly in it; an empty one if there is none."""
        return next(iter(self.all(name)), Element(name, self.line))


def read_xml(path: Path) -> Element:
    """Return the root element of a file.

    The parser is expat, which opens no other file. A document type is refused: only it can define entities.

    Raises:
        UsageError: the file is missing, no plain file or too large.
        ValueError: it is not XML, or beyond a limit; the message names the line.
    """
    data = read_bytes(path, MAX_BYTES)
    reading = _Reading()
    try:
        reading.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ValueError(f"line {error.lineno}: {expat.errors.messages.get(error.code, error)}") from None
    except LookupError as error:  # an encoding that Python does not know
        raise ValueError(f"line 1: {error}") from None
    return reading.document.inner[0]


class _Reading:
    """Builds elements from the parser's events, within the limits."""

    def __init__(self) -> None:
        self.document = Element("", 0)
        self._open = [self.document]
        self._count = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = lambda *_: self._refuse("a document type (DOCTYPE)")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = lambda _name: self._open.pop()
        self.parser.CharacterDataHandler = self._add

    def _start(self, name: str, _attributes: object) -> None:
        self._count += 1
        if len(self._open) > MAX_DEPTH:
            self._refuse(f"elements nested more than {MAX_DEPTH} deep")
        if self._count > MAX_ELEMENTS:
            self._refuse(f"more than {MAX_ELEMENTS:,} elements")
        element = Element(name, self.parser.CurrentLineNumber)
        self._open[-1].inner.append(element)
        self._open.append(element)

    def _add(self, text: str) -> None:
        element = self._open[-1]
        element.text += text.strip()
        if len(element.text) > MAX_TEXT:
            self._refuse(f"a text of more than {MAX_TEXT:,} characters")

    def _refuse(self, what: str) -> None:
        raise ValueError(f"line {self.parser.CurrentLineNumber}: {what}")
