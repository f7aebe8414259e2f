"""What part of a file an accelerator would take, and in how many pieces, without having the accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from advisor.measurement.accelerators.execution_order import execution_order
from advisor.measurement.accelerators.operator_facts import expands_constants
from advisor.measurement.accelerators.rules import Rules
from advisor.tflite.macs import count
from advisor.tflite.model import Model


@dataclass(frozen=True)
class Refused:
    """An operator that stays behind: its place in the file, its name and why."""

    index: int
    operator: str
    reason: str


@dataclass(frozen=True)
class Delegation:
    """How an accelerator would take a file.

    Attributes:
        rules: what the accelerator takes.
        operators: how many operators the file has.
        taken: how many of them it takes.
        macs: multiply-accumulates of a run.
        taken_macs: those that it takes.
        partitions: into how many pieces the operators fall that it could take.
        kept: how many of these pieces the runtime hands over.
        refused: the operators that stay behind, in the order of the file.
    """

    rules: Rules
    operators: int
    taken: int
    macs: int
    taken_macs: int
    partitions: int
    kept: int
    refused: tuple[Refused, ...]

    @property
    def share(self) -> float:
        """Part of the arithmetic that is taken, 0-1; of the operators where there is no arithmetic."""
        if self.macs:
            return self.taken_macs / self.macs
        return self.taken / self.operators if self.operators else 0.0

    @property
    def objections(self) -> tuple[str, ...]:
        """What speaks against the accelerator for this file, each with its figure; empty where it is worth it."""
        if not self.taken:
            return (f"it takes no operator{self._first_reason()}",)
        found = []
        if self.taken_macs < self.rules.least_macs:
            wanted = self.rules.least_macs / 1e6
            found.append(f"only {self.taken_macs / 1e6:.2f} million MACs are taken, fewer than {wanted:g} million")
        if self.partitions > self.rules.most_partitions:
            left = ", ".join(dict.fromkeys(row.operator for row in self.refused))
            found.append(f"{self.partitions} pieces, more than {self.rules.most_partitions}, cut apart by {left}")
        return tuple(found)

    @property
    def sentence(self) -> str:
        """The answer in words."""
        pieces = f"{self.kept} piece{'' if self.kept == 1 else 's'}"
        if self.kept < self.partitions:
            pieces += f" of {self.partitions}"
        part = f"{self.share:.0%} of the arithmetic ({self.taken} of {self.operators} operators, {pieces})"
        head = f"{self.rules.title} takes {part}"
        return f"{head}: not worth it, {'; '.join(self.objections)}" if self.objections else f"{head}: worth it"

    @property
    def reasons(self) -> dict[str, int]:
        """Why operators stay behind, and how many for each reason, the most frequent first."""
        counts: dict[str, int] = {}
        for row in self.refused:
            counts[row.reason] = counts.get(row.reason, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "accelerator": self.rules.name,
            "title": self.rules.title,
            "provenance": "computed",
            "sources": list(self.rules.sources),
            "share": self.share,
            "operators": self.operators,
            "taken": self.taken,
            "macs": self.macs,
            "taken_macs": self.taken_macs,
            "partitions": self.partitions,
            "partitions_kept": self.kept,
            "worth_it": not self.objections,
            "objections": list(self.objections),
            "sentence": self.sentence,
            "refused": [{"index": row.index, "operator": row.operator, "reason": row.reason} for row in self.refused],
        }

    def _first_reason(self) -> str:
        reason = next(iter(self.reasons), "")
        return f": {reason}" if reason else ""


def delegate(model: Model, rules: Rules) -> Delegation:
    """Say how an accelerator would take the main graph of a file."""
    reasons = list(rules.refusals(model))
    cut = pieces(model, {index for index, reason in enumerate(reasons) if reason})
    macs = [cost.macs for cost in count(model).operators]
    kept = _kept(cut, rules, macs)
    handed = {index for piece in kept for index in piece}
    for piece in cut:
        for index in piece:
            if index not in handed:
                reasons[index] = _left_behind(rules)
    refused = tuple(Refused(i, model.operators[i].name, reason) for i, reason in enumerate(reasons) if reason)
    left = {row.index for row in refused}
    return Delegation(
        rules=rules,
        operators=len(reasons),
        taken=len(reasons) - len(left),
        macs=sum(macs),
        taken_macs=sum(number for index, number in enumerate(macs) if index not in left),
        partitions=len(cut),
        kept=len(kept),
        refused=refused,
    )


def pieces(model: Model, left: set[int]) -> list[list[int]]:
    """Return the pieces into which the runtime cuts what an accelerator takes, all but the operators ``left``.

    An operator that only expands constants (float16 to float32) runs once, when the file is loaded, and belongs to no
    piece.
    """
    found: list[list[int]] = []
    inside = False
    for index in execution_order(model, left):
        if index in left:
            inside = False
        elif not expands_constants(model, model.operators[index]):
            if not inside:
                found.append([])
            inside = True
            found[-1].append(index)
    return found


def _kept(cut: Sequence[list[int]], rules: Rules, macs: Sequence[int]) -> list[list[int]]:
    """Return the pieces that the runtime hands over."""
    large = [piece for piece in cut if len(piece) >= rules.least_operators]
    if not rules.keeps_first:
        large.sort(key=lambda piece: (-sum(macs[index] for index in piece), -len(piece), piece[0]))
    return large[: rules.keeps]


def _left_behind(rules: Rules) -> str:
    """Say why a piece that could be taken is not."""
    if rules.keeps is None:
        return f"in a piece of fewer than {rules.least_operators} operators"
    which = "first" if rules.keeps_first else "largest"
    handed = "piece, which alone is" if rules.keeps == 1 else f"{rules.keeps} pieces, which alone are"
    return f"outside the {which} {handed} handed over"
