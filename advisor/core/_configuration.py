"""One point of the search space: a card, how it is trained and compressed, and where it runs.

The plan of a search makes configurations, and each evaluation has one. Names and keys made here
are in the files of runs: ``Configuration.key`` identifies a line of ``evaluations.jsonl``, so
neither its parts nor their order may change. A trial of the study has the values of card,
training, compression and threads, so their names stay, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from advisor.core._training import recipe_of
from advisor.core._units import plural

HOST = "host"


@dataclass(frozen=True, order=True)
class Target:
    """Device, runtime, accelerator and threads together: a latency belongs to all four."""

    device: str  #: name of the device profile, ``host`` for this machine
    runtime: str  #: runtime and version, such as ``ai-edge-litert==2.3.0``
    accelerator: str  #: ``cpu``, ``gpu``, ``npu``, ...
    threads: int  #: number of CPU threads


@dataclass(frozen=True, order=True)
class Configuration:
    """One point of the search space."""

    card: str  #: name of the model card, such as ``mobilenet_v2_1.0_224``
    training: str  #: training recipe: ``none`` (published weights as they are), ``head``, ...
    compression: str  #: compression recipe: ``float32``, ``int8``, ...
    target: Target  #: where it runs

    @property
    def key(self) -> str:
        """Readable identifier, unique within a run."""
        target = self.target
        place = f"{target.device}:{target.accelerator}x{target.threads}"
        return f"{self.card}/{self.training}/{self.compression}@{place}"

    @property
    def variant_name(self) -> str:
        """Training and compression in short: ``int8``, or ``finetune_top int8``."""
        # Every card is evaluated with a base training, so a name needs no mention of it.
        if recipe_of(self.training).base:
            return self.compression
        return f"{self.training} {self.compression}"

    @property
    def file_stem(self) -> str:
        """The name of its files in a run without an ending: ``CARD-head-int8``."""
        return f"{self.card}-{self.training}-{self.compression}"

    @property
    def name(self) -> str:
        """The name for people: card, recipes and place."""
        target = self.target
        place = plural(target.threads, "thread")
        if target.device != HOST:
            place = f"{target.device} ({target.accelerator}, {place})"
        return f"{self.card} {self.variant_name} on {place}"


class Variant(NamedTuple):
    """The identity of one file: a card with its recipes, whatever device it runs on."""

    card: str
    training: str
    compression: str
