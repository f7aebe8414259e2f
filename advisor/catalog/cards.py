"""Define model cards: what a candidate is, what was published about it, and where its weights are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from advisor.core.tasks import TASKS

if TYPE_CHECKING:
    from advisor.tasks.task import OwnCards, Task

Scalar = bool | int | float | str
SourceKind = Literal["url", "huggingface", "pypi", "npm", "file"]

OWN_FILES: Mapping[str, Task] = MappingProxyType(
    {
        architecture: task
        for task in TASKS.values()
        if task.own_cards is not None
        for architecture in (task.own_cards.architecture, task.own_cards.finished)
    }
)
"""The tasks of users' own ``.tflite`` files, by the architecture in their cards."""


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """Conversion of RGB values 0..255 to the model's input: ``(value - mean) / std``, channel by channel.

    Attributes:
        mean: value that is subtracted from red, green and blue, 0 to 255.
        std: value that the difference is divided by.
    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Published:
    """The figures that one source publishes.

    Attributes:
        precision: form of the file; ``int8_qat`` where the figure belongs to weights from quantization-aware training,
            which quantizing the float weights does not reach.
        source: where the figures are from.
        top1: share in % of the ImageNet validation set whose first answer is right.
        top5: share in % with the right answer among the first five.
        params: number of parameters as the source rounds it; the card's own is exact.
        macs: number of multiply-accumulates for one image, likewise.
        note: why a figure differs from those of the card.
    """

    precision: str
    source: str
    top1: float | None = None
    top5: float | None = None
    params: int | None = None
    macs: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class MemberFile:
    """One file of weights and its hash.

    If a source publishes no SHA-256, another hash is used, or that of the archive. The SHA-256 is then recorded when
    the file first arrives, and later copies must have it. A file with no hash is never downloaded: only a user's own
    copy is used.

    Attributes:
        path: its path inside an archive, or the plain file name.
        sha256: its hash.
        size_bytes: its size, None if it is not known.
        sha384: its SHA-384, as strong as SHA-256.
        sha256_prefix: the first digits of the hash, as PyTorch writes them into file names; detects damage, not
            forgery.
        md5: its MD5; detects damage, not forgery.
        archive: hash of the archive it comes in.
    """

    path: str
    sha256: str = ""
    size_bytes: int | None = None
    sha384: str = ""
    sha256_prefix: str = ""
    md5: str = ""
    archive: str = ""

    @property
    def name(self) -> str:
        """The base name, as in a mirror folder."""
        return PurePosixPath(self.path).name

    @property
    def checkable(self) -> bool:
        """True if the file has its own hash, so that it can be checked without its archive."""
        return bool(self.sha256 or self.sha384 or self.sha256_prefix or self.md5)

    @property
    def strong(self) -> bool:
        """True if its hash is a secure one, so that it cannot be forged."""
        return bool(self.sha256 or self.sha384)

    @property
    def key(self) -> str:
        """The file's hash as a file name; empty if it has none."""
        if self.sha256:
            return self.sha256
        for kind in ("sha384", "sha256_prefix", "md5"):
            if getattr(self, kind):
                return f"{kind}-{getattr(self, kind)}"
        return f"{self.archive}-{self.name}" if self.archive else ""


@dataclass(frozen=True, slots=True)
class WeightSource:
    """One place that holds the card's weights, and how they are read.

    Attributes:
        kind: kind of place.
        format: how the file is read, a module of :mod:`advisor.catalog.weights.readers`.
        port: the rule that puts the tensors into the Keras graph.
        file: the file of weights.
        companions: further files that the reader needs beside the first.
        url: an address.
        package: name of a package, or of a Hugging Face repository.
        version: its version, or its revision.
        archive: name of the package's file; ``archive_sha256`` picks it, too.
        archive_sha256: hash of the package's file.
        archive_sha384: its SHA-384.
        licence: licence of the weights, if it is not that of the card.
    """

    kind: SourceKind
    format: str
    port: str
    file: MemberFile
    companions: tuple[MemberFile, ...] = ()
    url: str = ""
    package: str = ""
    version: str = ""
    archive: str = ""
    archive_sha256: str = ""
    archive_sha384: str = ""
    licence: str = ""

    @property
    def members(self) -> tuple[MemberFile, ...]:
        """Every file of the source, the first one first."""
        return (self.file, *self.companions)

    @property
    def package_file(self) -> MemberFile:
        """The archive as a file, described by the weights that it is fetched for."""
        return MemberFile(self.file.name, self.archive_sha256, sha384=self.archive_sha384)

    @property
    def label(self) -> str:
        """The source in a few words, for tables and errors."""
        if self.kind in ("url", "file"):
            return self.url or self.file.path
        return f"{self.kind}:{self.package}=={self.version}"


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """A checked file: its path, its hash, its source, and how to read it and map it to the graph.

    ``source`` is a label for people (``cache``, ``mirror ...``, ``pypi:package==version``); ``member`` the path
    inside the archive it came from.
    """

    path: Path
    sha256: str
    source: str
    member: str
    format: str
    port: str


@dataclass(frozen=True, slots=True)
class Conversion:
    """The conversion of a user's model of another framework to the card's ``.tflite``, and its agreement.

    Attributes:
        converter: the converter and its version, such as ``onnx2tf 2.6.9``.
        runtime: the runtime of the original, such as ``onnxruntime 1.31.1``.
        images: number of images that both ran.
        difference: the largest difference of a score, relative to the largest score of the image.
        agreement: share of the images with the same class on top, 0 to 1.
        transposes: number of transposes that the conversion left in the graph.
        transposed: their share in the values that operators read and write, 0 to 1.
    """

    converter: str
    runtime: str
    images: int
    difference: float
    agreement: float
    transposes: int = 0
    transposed: float = 0.0


@dataclass(frozen=True, slots=True)
class Card:
    """One row of the catalogue.

    Attributes:
        name: unique name, such as ``mobilenet_v2_1.0_224``.
        family: family of networks.
        input_size: side of the square input in pixels.
        preprocessing: how an image becomes the input.
        params: number of trained values of the graph as built; BatchNorm's moving statistics are not among them.
        macs: number of multiply-accumulates of its convolutions and dense layers for one image.
        licence: SPDX identifier, or other words.
        paper: where the network is described.
        architecture: function that builds the graph.
        arguments: what that function takes besides the side of the input and the classes.
        classes: number of classes of the published weights.
        label_offset: 1 where label 0 is the background, else 0.
        published: figures that sources publish.
        weights: places of the weights, the preferred one first.
        note: what is to know of the card.
        conversion: how it was made from a model of another framework, None if it was not.
    """

    name: str
    family: str
    input_size: int
    preprocessing: Preprocessing
    params: int
    macs: int
    licence: str
    paper: str
    architecture: str
    arguments: tuple[tuple[str, Scalar], ...] = ()
    classes: int = 1000
    label_offset: int = 0
    published: tuple[Published, ...] = ()
    weights: tuple[WeightSource, ...] = ()
    note: str = ""
    conversion: Conversion | None = None

    @property
    def own_file(self) -> bool:
        """True if the card is a user's own file, for which no graph is built."""
        return self.architecture in OWN_FILES

    @property
    def task(self) -> str:
        """The only task of a user's own file; empty for a network, which is trained for any task."""
        return OWN_FILES[self.architecture].name if self.own_file else ""

    @property
    def as_it_is(self) -> bool:
        """True for a user's own detector or finished file, which is judged but never trained."""
        own = self._own
        return own is not None and (not own.trained or self.architecture == own.finished)

    @property
    def form(self) -> str:
        """The only form of a user's file that is not compressed, such as ``int8``; empty for every other card."""
        own = self._own
        finished = own is not None and self.architecture == own.finished
        return str(self.keywords.get("form", "float32")) if finished else ""

    @property
    def _own(self) -> OwnCards | None:
        return OWN_FILES[self.architecture].own_cards if self.own_file else None

    @property
    def keywords(self) -> dict[str, Scalar]:
        """The architecture's arguments as a dictionary."""
        return dict(self.arguments)

    def top1(self, precision: str = "float32") -> float | None:
        """Return the first published top-1 (percent) at ``precision``, or None."""
        return next((p.top1 for p in self.published if p.precision == precision and p.top1 is not None), None)

    def at(self, side: int) -> Card:
        """Return the card with another side of the input, in pixels: the weights of convolutions fit every size.

        A user's own file keeps its side.
        """
        if self.own_file:
            return self
        return replace(self, input_size=side, macs=round(self.macs * (side / self.input_size) ** 2))
