"""Read untrusted files within limits: bytes, text and YAML; errors name the line of a value.

Every file that a user names is opened by :func:`open_file`. Catalogues, requests and profiles are
read by :meth:`YamlDocument.read` with a safe loader.
"""

from __future__ import annotations

import codecs
import io
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from advisor.core import UsageError, show_bytes
from advisor.store._encodings import encoding_error

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 64
# Characters of a number; Python's own limit is 4,300 digits,
# and base 60 takes a minute for as many.
MAX_NUMBER = 64
# Aliases repeat values; with all aliases expanded, a document must not have more values than this.
MAX_VALUES = 5_000_000

_STRING = "tag:yaml.org,2002:str"
_SEQUENCE = "tag:yaml.org,2002:seq"
_MAPPING = "tag:yaml.org,2002:map"
_MERGE = "tag:yaml.org,2002:merge"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class YamlDocument:
    """A parsed file: its plain values, and the line of each value for errors."""

    path: Path
    values: Any
    text: str = field(repr=False)

    @cached_property
    def root(self) -> yaml.Node:
        """The tree of nodes; its composer recurses, but :meth:`YamlDocument.read` checked the
        depth.
        """
        root: yaml.Node = _Loader(self.text).get_single_node()
        return root

    def line(self, location: Sequence[str | int]) -> int:
        """Return the line of the value at a location, from 1, or of the innermost part there."""
        node = self.root
        line = node.start_mark.line + 1
        for step in location:
            entries: list[Any] = node.value if isinstance(node, yaml.MappingNode) else []
            if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
                entries = [(value, value) for value in node.value[step : step + 1]]
            elif entries:
                entries = [(key, value) for key, value in entries if key.value == step]
            if not entries:
                break
            line = entries[0][0].start_mark.line + 1
            node = entries[0][1]
        return line

    def at(self, location: Sequence[str | int] = ()) -> str:
        """Return ``file:line`` of the value at ``location``, for errors."""
        return f"{self.path}:{self.line(location)}"

    @classmethod
    def read(cls, path: Path, max_bytes: int = MAX_BYTES, as_text: bool = False) -> YamlDocument:
        """Parse ``path`` as plain data; with ``as_text``, keys and values stay as they are
        written.

        Names of people need that: YAML 1.1 takes ``yes``, ``no`` and ``on`` for true and false,
        and ``02`` for 2.

        UsageError if the file is missing, too large or not YAML, has a tag, repeats a key,
        or its aliases are too large.
        """
        text = read_text(path, max_bytes)
        try:
            return cls(path, _Reading(path, _Loader(text), as_text).document(), text)
        except (yaml.YAMLError, ValueError) as error:
            mark = getattr(error, "problem_mark", None)
            where = f"{path}:{mark.line + 1}" if mark is not None else str(path)
            problem = getattr(error, "problem", None) or error or type(error).__name__
            raise UsageError(f"{where}: {problem}", "use plain YAML data only") from error


def read_text(path: Path, max_bytes: int = MAX_BYTES, errors: str = "strict") -> str:
    """Return the text of a file without a byte-order mark, in UTF-8 or UTF-16.

    ``errors`` is what ``bytes.decode`` does where the text is not UTF-8.
    UsageError names the likeliest encodings.
    """
    data = read_bytes(path, max_bytes)
    try:
        return data.decode(_find_encoding(data), errors)
    except ValueError:
        raise encoding_error(path, data.splitlines()) from None


@contextmanager
def open_text(path: Path, max_bytes: int = MAX_BYTES) -> Iterator[io.TextIOWrapper]:
    """Open a text file to read it line by line; errors as of :func:`read_text`.

    The ends of lines stay as they are written.
    """
    with open_file(path, max_bytes) as content:
        encoding = _find_encoding(content.read(2))
        content.seek(0)
        try:
            with io.TextIOWrapper(content, encoding, newline="") as file:
                yield file
        except UnicodeDecodeError:
            with open_file(path, max_bytes) as lines:
                raise encoding_error(path, lines) from None


def _find_encoding(beginning: bytes) -> str:
    """Return the encoding of a text by its first two bytes: UTF-16 by its mark, else UTF-8.

    No text begins with NUL: where one of the two bytes is NUL, it is UTF-16 without a mark.
    """
    head = beginning[:2]
    if head in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    if len(head) < 2 or head.count(0) != 1:
        return "utf-8-sig"
    return "utf-16-be" if head[0] == 0 else "utf-16-le"


def read_bytes(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the bytes of a file.

    UsageError if it is missing, not readable, too large, or no plain file:
    a pipe or a device has no end.
    """
    with open_file(path, max_bytes) as file:
        return file.read(max_bytes)


def open_file(path: Path, max_bytes: int = MAX_BYTES) -> BinaryIO:
    """Open a file that a user names, to read its bytes; :func:`read_bytes` has the errors."""
    try:
        # A pipe without a writer is not waited for.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror})", "check the path and its permissions"
        ) from error
    except ValueError as error:  # a NUL character in the path
        raise UsageError(f"{path}: cannot be read ({error})", "check the path") from error
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode) and status.st_size <= max_bytes:
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISREG(status.st_mode):
        raise UsageError(
            f"{path}: larger than {show_bytes(max_bytes)}", "check that this is the right file"
        )
    raise UsageError(f"{path}: is not a plain file", "give the path of a file")


class _Reading:
    """Builds values from the parser's events in one pass and within limits.

    It does not use nodes, because libyaml composes them by recursion in C, and deep nesting would
    crash the process. Every value has a size: the number of values in it with all aliases
    expanded.
    """

    def __init__(self, path: Path, loader: Any, as_text: bool) -> None:
        self._path = path
        self._loader = loader
        self._as_text = as_text
        self._next = loader.get_event
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._plain: dict[str, Any] = {}

    def document(self) -> object:
        self._next()  # the stream begins
        if isinstance(self._next(), yaml.StreamEndEvent):
            raise UsageError(
                f"{self._path}: the file is empty", "see the documentation for an example"
            )
        value, _ = self._read_value(self._next(), 0)
        self._next()  # the document ends
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            raise self._refusal(event, "a second document")
        return value

    def _read_value(self, event: Any, depth: int) -> tuple[Any, int]:
        if type(event) is yaml.ScalarEvent and event.anchor is None:
            return self._read_scalar(event), 1
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise self._refusal(event, f"the alias '{event.anchor}' without an anchor")
            # Its anchor was read, and its value is not complete yet.
            if self._anchors[event.anchor][1] == 0:
                raise self._refusal(event, "a value that contains itself")
            return self._anchors[event.anchor]
        if depth > MAX_DEPTH:
            raise self._refusal(event, f"values nested more than {MAX_DEPTH} deep")
        if event.anchor is not None:
            self._anchors[event.anchor] = (None, 0)
        if isinstance(event, yaml.ScalarEvent):
            value = self._read_scalar(event)
            size = 1
        else:
            is_sequence = isinstance(event, yaml.SequenceStartEvent)
            if event.tag not in (None, "!", _SEQUENCE if is_sequence else _MAPPING):
                raise self._refusal(event, f"the tag '{event.tag}', which is more than plain data")
            value, size = self._read_sequence(depth) if is_sequence else self._read_mapping(depth)
        if size > MAX_VALUES:
            raise self._refusal(event, f"aliases that grow to more than {MAX_VALUES} values")
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, size)
        return value, size

    def _read_sequence(self, depth: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        total = 1
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            value, size = self._read_value(event, depth + 1)
            values.append(value)
            total += size
        return values, total

    def _read_mapping(self, depth: int) -> tuple[dict[Any, Any], int]:
        values: dict[Any, Any] = {}
        total = 1
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise self._refusal(event, "a key that is not plain text")
            key, _ = self._read_value(event, depth)
            if not isinstance(key, str):
                raise self._refusal(event, f"the key {key!r} is not text: quote it")
            if key in values:
                raise self._refusal(event, f"the key '{key}' is there twice in the same mapping")
            values[key], size = self._read_value(self._next(), depth + 1)
            total += size + 1
        return values, total

    def _read_scalar(self, event: Any) -> Any:
        if event.tag is not None or not event.implicit[0]:
            tag = event.tag if event.tag not in (None, "!") else _STRING
            return self._construct_scalar(event, tag)
        if event.value not in self._plain:
            tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
            if tag == _MERGE:
                raise self._refusal(event, "a merge of mappings ('<<'), which is not supported")
            self._plain[event.value] = self._construct_scalar(
                event, _STRING if self._as_text else tag
            )
        return self._plain[event.value]

    def _construct_scalar(self, event: Any, tag: str) -> Any:
        if "\0" in event.value:
            raise self._refusal(event, "a NUL character")
        if tag == _STRING:
            return event.value
        kind = tag.rpartition(":")[2]
        if tag in _NUMBERS and len(event.value) > MAX_NUMBER:
            raise self._refusal(event, f"a number of {len(event.value)} characters")
        if tag in _NUMBERS and ":" in event.value:
            raise self._refusal(
                event, f"'{event.value}', which YAML takes for a number in sixties: quote it"
            )
        if kind == "binary":
            raise self._refusal(event, "the tag 'binary', which is more than plain data")
        if kind == "null" and event.value.lower() not in ("", "~", "null"):
            raise self._refusal(event, f"'{event.value[:MAX_NUMBER]}' is not of the kind 'null'")
        try:
            return self._loader.construct_object(
                yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
            )
        except yaml.YAMLError:
            raise
        except Exception as error:
            # PyYAML's constructors end in many ways on text that is not of the tag's kind.
            raise self._refusal(
                event, f"'{event.value[:MAX_NUMBER]}' is not of the kind '{kind}'"
            ) from error

    def _refusal(self, event: Any, what: str) -> UsageError:
        return UsageError(
            f"{self._path}:{event.start_mark.line + 1}: {what}", "use plain YAML data only"
        )
