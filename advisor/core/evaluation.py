"""Configurations and what became of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from advisor.core.quantity import Quantity
from advisor.core.training import NAMED


@dataclass(frozen=True, order=True)
class Target:
    """What a latency belongs to: never a device alone.

    Attributes:
        device: name of the device profile, ``host`` for this machine.
        runtime: runtime and version, such as ``ai-edge-litert==2.3.0``.
        accelerator: ``cpu``, ``gpu``, ``npu``, ...
        threads: number of CPU threads.
    """

    device: str
    runtime: str
    accelerator: str
    threads: int


def _require_texts(data: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        if not isinstance(data.get(name, ""), str):
            raise TypeError(f"{name} is no text")


@dataclass(frozen=True, order=True)
class Configuration:
    """One point of the search space.

    Attributes:
        card: name of the model card, such as ``mobilenet_v2_1.0_224``.
        training: training recipe: ``none`` (published weights as they are), ``head``, ...
        compression: compression recipe: ``float32``, ``int8``, ...
        target: where it runs.
    """

    card: str
    training: str
    compression: str
    target: Target

    @property
    def key(self) -> str:
        """A readable identifier, unique within a run."""
        target = self.target
        place = f"{target.device}:{target.accelerator}x{target.threads}"
        return f"{self.card}/{self.training}/{self.compression}@{place}"

    @property
    def form(self) -> str:
        """How it was made, in as few words as tell it apart: ``int8``, or ``finetune_top int8``."""
        return f"{self.training} {self.compression}" if self.training in NAMED else self.compression

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Configuration:
        """Read back ``dataclasses.asdict``.

        Raises:
            TypeError, KeyError: something else.
        """
        target = Target(**data["target"])
        _require_texts(data["target"], ("device", "runtime", "accelerator"))
        _require_texts(data, ("card", "training", "compression"))
        if not isinstance(target.threads, int) or isinstance(target.threads, bool):
            raise TypeError("threads are no number")
        return cls(**{**data, "target": target})


class Status(StrEnum):
    """What became of a configuration."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Evaluation:
    """A configuration with its quantities and its status.

    Attributes:
        configuration: what was evaluated.
        status: ``ok``, ``failed`` or ``skipped``; the last two carry a ``reason``.
        family: the card's family, for colours and filters.
        reason: why it failed or was skipped.
        stage: the stage that ended it (``screen``, ``convert``, ``score``, ...), empty when ok.
        accuracy: top-1 in %, which decides: on the validation part where the user gave pictures, published else.
        holdout_accuracy: top-1 in % of the artefact on the hold-out, which nothing was learnt from or chosen by: what
            to expect. Known of finalists only.
        latency: median latency in ms, with its interval.
        latency_p90: 90th percentile in ms: what the budget is compared with.
        size: bytes of the artefact.
        memory: peak private memory in bytes of a fresh process that ran it.
        drop: points of accuracy lost against the float32 artefact of the same card, with interval.
        contended: the machine was busy with something else while timing.
        artefact: path of the ``.tflite`` relative to the run folder, empty where none was made.
        artefact_sha256: its hash.
        details: further figures by name (JSON values), such as load time or per-class recall.
    """

    configuration: Configuration
    status: Status
    family: str = ""
    reason: str = ""
    stage: str = ""
    accuracy: Quantity | None = None
    holdout_accuracy: Quantity | None = None
    latency: Quantity | None = None
    latency_p90: Quantity | None = None
    size: Quantity | None = None
    memory: Quantity | None = None
    drop: Quantity | None = None
    contended: bool = False
    artefact: str = ""
    artefact_sha256: str = ""
    details: dict[str, Any] = field(default_factory=dict, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the evaluation as a JSON object, one line of ``evaluations.jsonl``."""
        data = asdict(self)
        data["key"] = self.configuration.key
        for name in _QUANTITIES:
            quantity = getattr(self, name)
            data[name] = quantity.to_json() if quantity else None
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Evaluation:
        """Read back :meth:`to_json`.

        Raises:
            KeyError, TypeError, ValueError: it is not what that writes.
        """
        fields = {key: value for key, value in data.items() if key != "key"}
        if not isinstance(fields.get("details", {}), dict) or not isinstance(fields.get("contended", False), bool):
            raise TypeError("details are no mapping")
        _require_texts(fields, ("family", "reason", "stage", "artefact", "artefact_sha256"))
        fields["configuration"] = Configuration.from_json(fields["configuration"])
        fields["status"] = Status(fields["status"])
        for name in _QUANTITIES:
            fields[name] = Quantity.from_json(fields[name]) if fields.get(name) else None
        if any(fields[name] is not None and fields[name].value <= 0 for name in _ABOVE_ZERO):
            raise ValueError("a latency or size is not above zero")
        return cls(**fields)


_ABOVE_ZERO = ("latency", "latency_p90", "size")

_QUANTITIES = ("accuracy", "holdout_accuracy", "latency", "latency_p90", "size", "memory", "drop")
