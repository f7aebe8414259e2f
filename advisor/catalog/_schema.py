"""Read the YAML of a catalogue file into cards: types, limits, and every mistake with its line.

`_catalogue.py` calls :func:`read_cards`. The entries are the format of users' files, and
`tools/schemas` writes their JSON schema: a key stays, a new key needs a default.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from advisor.catalog import _architectures as architectures
from advisor.catalog._cards import (
    Card,
    Conversion,
    GraphReference,
    Preprocessing,
    Published,
    Scalar,
)
from advisor.core import UsageError, nearest
from advisor.store import (
    MemberFile,
    SourceKind,
    WeightSource,
    YamlDocument,
    shipped_folder,
)

Percent = Annotated[float, Field(ge=0, le=100)]
Count = Annotated[int, Field(gt=0, le=10**13)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Md5 = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Sha384 = Annotated[str, Field(pattern=r"^[0-9a-f]{96}$")]
Sha256Prefix = Annotated[str, Field(pattern=r"^[0-9a-f]{8,63}$")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$", max_length=120)]
Package = Annotated[
    str, Field(pattern=r"^(@?[A-Za-z0-9][A-Za-z0-9._~-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*$")
]
Text = Annotated[str, Field(min_length=1, max_length=2000)]
Format = Literal[
    "keras_h5",
    "torch",
    "graphdef",
    "caffemodel",
    "tflite",
    "tfjs",
    "onnx",
    "checkpoint",
    "safetensors",
]

_NEEDED: dict[SourceKind, tuple[str, ...]] = {
    "url": ("url",),
    "huggingface": ("package", "version"),
    "pypi": ("package", "version", "archive_sha256"),
    "npm": ("package", "version", "archive_sha256"),
    "file": (),
}


class Strict(BaseModel):
    """A model that rejects unknown keys and does not convert strings to numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    frozen: ClassVar[Callable[..., Any]]

    def value(self) -> Any:
        """Return the frozen value; a key without a value has the default of that value."""
        stated = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if value is not None:
                stated[name] = _freeze(value)
        return type(self).frozen(**stated)


def _freeze(value: Any) -> Any:
    if isinstance(value, Strict):
        return value.value()
    if isinstance(value, list):
        return tuple(map(_freeze, value))
    if isinstance(value, dict):
        return tuple(value.items())
    return value


class PreprocessingEntry(Strict):
    """``mean`` and ``std`` on RGB 0..255."""

    frozen = Preprocessing
    mean: Annotated[list[float], Field(min_length=3, max_length=3)]
    std: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=3, max_length=3)]


class PublishedEntry(Strict):
    """The figures of one source."""

    frozen = Published
    precision: Literal[
        "float32", "float16", "int8", "int8_qat", "uint8", "dynamic_int8", "int16x8"
    ]
    source: Text
    top1: Percent | None = None
    top5: Percent | None = None
    map: Percent | None = None
    params: Count | None = None
    macs: Count | None = None
    note: str = ""

    @model_validator(mode="after")
    def _require_order(self) -> PublishedEntry:
        if self.top1 is not None and self.top5 is not None and self.top5 < self.top1:
            raise ValueError(f"top5 {self.top5} is below top1 {self.top1}")
        return self


class MemberEntry(Strict):
    """A file inside an archive, or behind a URL."""

    frozen = MemberFile
    path: Text
    sha256: Sha256 | None = None
    size_bytes: Count | None = None
    sha384: Sha384 | None = None
    sha256_prefix: Sha256Prefix | None = None
    md5: Md5 | None = None


class SourceEntry(Strict):
    """A source of weights."""

    frozen = WeightSource
    kind: SourceKind
    format: Format
    port: Name
    file: MemberEntry
    companions: list[MemberEntry] = []
    url: Annotated[str, Field(pattern=r"^https?://")] | None = None
    package: Package | None = None
    version: Text | None = None
    archive: Annotated[str, Field(pattern=r"^[^/\\]+$")] | None = None
    archive_sha256: Sha256 | None = None
    archive_sha384: Sha384 | None = None
    licence: str = ""

    @model_validator(mode="after")
    def _require_complete(self) -> SourceEntry:
        missing = []
        for name in _NEEDED[self.kind]:
            if getattr(self, name) is None:
                missing.append(name)
        if missing:
            raise ValueError(f"a '{self.kind}' source needs {', '.join(missing)}")
        members = [member.value() for member in (self.file, *self.companions)]
        # An MD5 can be forged, and so can an answer over http.
        weak = any(member.checkable and not member.strong for member in members)
        if weak and self.url and not self.url.startswith("https://"):
            raise ValueError(
                "a file that is known by an md5 or by a part of its hash is fetched over https"
                " only"
            )
        return self

    def value(self) -> WeightSource:
        """Return the frozen value, whose members know the hash of their archive or their hub."""
        source: WeightSource = super().value()
        archive = source.package_file.key
        if source.kind == "huggingface" and not source.file.checkable:
            # Without a hash, the repository is the key in the cache; the hub's hash is kept there.
            archive = f"hub-{hashlib.sha256(source.label.encode()).hexdigest()[:16]}"
        file, *companions = (replace(member, archive=archive) for member in source.members)
        return replace(source, file=file, companions=tuple(companions))


class ConversionEntry(Strict):
    """The conversion of a user's model to a ``.tflite``."""

    frozen = Conversion
    converter: Text
    runtime: Text
    images: Count
    difference: Annotated[float, Field(ge=0)]
    agreement: Annotated[float, Field(ge=0, le=1)]
    transposes: Annotated[int, Field(ge=0)] = 0
    transposed: Annotated[float, Field(ge=0, le=1)] = 0.0


class GraphEntry(Strict):
    """A graph file of ``catalogs/graphs``."""

    frozen = GraphReference
    file: Annotated[str, Field(pattern=r"^[^/\\]+\.graph$")]
    side: Annotated[int, Field(ge=16, le=2048)]
    sha256: Sha256
    difference: Annotated[float, Field(ge=0)] = 0.0


class CardEntry(Strict):
    """One card, completed by the ``defaults`` of its file."""

    frozen = Card
    name: Name
    family: Name
    input_size: Annotated[int, Field(ge=16, le=2048)]
    preprocessing: PreprocessingEntry
    params: Count
    macs: Count
    licence: Text
    paper: Text
    architecture: Name
    arguments: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], Scalar] = {}
    classes: Annotated[int, Field(ge=1, le=100_000)] = 1000
    label_offset: Literal[0, 1] = 0
    published: list[PublishedEntry] = []
    weights: list[SourceEntry] = []
    note: str = ""
    conversion: ConversionEntry | None = None
    graph: GraphEntry | None = None


class CatalogueFile(Strict):
    """A whole file: one family, defaults for every card, and the cards."""

    family: Name  #: family of the cards
    #: folder that the paths of own weights count from; only a copy in a run folder has it.
    #: Otherwise, it is the folder of the file.
    folder: Text | None = None
    paper: Text | None = None  #: where the family is described
    licence: Text | None = None  #: licence of the cards: an SPDX identifier, or other words
    defaults: dict[str, Any] = {}  #: keys that every card of the file has unless it says otherwise
    cards: Annotated[list[dict[str, Any]], Field(min_length=1)]  #: the cards


Entry = TypeVar("Entry", bound=BaseModel)
Place = tuple[str | int, ...]


def read_cards(
    path: Path, wrong: list[UsageError] | None = None
) -> tuple[YamlDocument, dict[int, Card]]:
    """Return a catalogue file and its cards by their index in it.

    ``wrong`` receives the errors of single cards, which are skipped; without it the first
    error is raised.
    """
    document = YamlDocument.read(path)
    file = _validate_entry(CatalogueFile, document.values, document, ())
    header = {"family": file.family, "paper": file.paper, "licence": file.licence}
    shared = {key: value for key, value in header.items() if value is not None} | file.defaults
    cards: dict[int, Card] = {}
    for index, entry in enumerate(file.cards):
        try:
            card = _validate_entry(CardEntry, shared | entry, document, ("cards", index)).value()
            if card.architecture not in architectures.NAMES:
                raise UsageError(
                    f"{document.at(('cards', index))}: no architecture is called"
                    f" '{card.architecture}'{nearest(card.architecture, architectures.NAMES)}",
                    f"architectures: {', '.join(architectures.NAMES)}",
                )
            folder = Path(file.folder or path.parent).absolute()
            # Absolute: a run is continued from another folder than it was begun in.
            cards[index] = replace(
                card, weights=tuple(_anchor_paths(source, folder) for source in card.weights)
            )
        except UsageError as error:
            if wrong is None:
                raise
            wrong.append(error)
    return document, cards


def _anchor_paths(source: WeightSource, folder: Path) -> WeightSource:
    """Return the source with the paths of a user's own files counted from ``folder``."""
    if source.kind != "file":
        return source
    first, *others = (replace(member, path=str(folder / member.path)) for member in source.members)
    return replace(source, file=first, companions=tuple(others))


def _validate_entry(
    schema: type[Entry], values: Any, document: YamlDocument, place: Place
) -> Entry:
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        raise _explain_error(error, schema, document, place) from None


def _explain_error(
    error: ValidationError, schema: type[BaseModel], document: YamlDocument, place: Place
) -> UsageError:
    """Return the error to show, with file and line."""
    # A misspelt key is also a missing one: the misspelling is the error to show.
    problems = sorted(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    first = problems[0]
    location = first["loc"]
    line = document.line((*place, *location))
    in_card = not place or not location or location[0] in document.values["cards"][place[1]]
    # A wrong value that the card has from the defaults of the file is shown where it stands.
    if not in_card and location[0] in document.values.get("defaults", {}):
        line = document.line(("defaults", *location))
    name = ".".join(map(str, location)) or "the file"
    if first["type"] == "extra_forbidden":
        models = (schema, PreprocessingEntry, PublishedEntry, SourceEntry, MemberEntry, GraphEntry)
        keys = list[str]()
        for model in models:
            keys += model.model_fields
        problem = f"{document.path}:{line}: unknown key '{name}'{nearest(str(location[-1]), keys)}"
        return UsageError(problem, f"keys: {', '.join(keys)}")
    stated = repr(first["input"])
    if len(stated) > 60:
        stated = f"{stated[:57]}..."
    value = ""
    if first["type"] != "missing":
        value = f" (found {stated})"
    hint = f"correct this line; the files of {shipped_folder('catalogs')} are examples"
    return UsageError(f"{document.path}:{line}: {name}: {first['msg']}{value}", hint)
