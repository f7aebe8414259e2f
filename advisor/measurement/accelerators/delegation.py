"""Compute which operators of a file an accelerator would run, and in how many partitions; nothing runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.measurement.accelerators.execution_order import execution_order
from advisor.measurement.accelerators.operator_facts import expands_constants
from advisor.measurement.accelerators.rules import Rules
from advisor.tflite.macs import count
from advisor.tflite.model import Model


@dataclass(frozen=True)
class Refused:
    """An operator that the accelerator does not run: its index in the file, its name and the reason."""

    index: int
    operator: str
    reason: str


@dataclass(frozen=True)
class Delegation:
    """The delegation of a file to an accelerator.

    Attributes:
        rules: the operators that the accelerator supports.
        operators: number of operators in the file.
        taken: number of operators that the accelerator runs.
        macs: multiply-accumulates of a run.
        taken_macs: multiply-accumulates that the accelerator runs.
        partitions: number of partitions that the supported operators form.
        kept: number of partitions that the runtime delegates.
        refused: the operators that the accelerator does not run, in the order of the file.
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
        """Share of the arithmetic that the accelerator runs, 0-1; share of the operators if there is no arithmetic."""
        if self.macs:
            return self.taken_macs / self.macs
        return self.taken / self.operators if self.operators else 0.0

    @property
    def objections(self) -> tuple[str, ...]:
        """Reasons against the accelerator for this file, each with its figure; empty if it is worth it."""
        if not self.taken:
            return (f"it runs no operator{self._first_reason()}",)
        found = []
        if self.taken_macs < self.rules.least_macs:
            wanted = self.rules.least_macs / 1e6
            found.append(f"only {self.taken_macs / 1e6:.2f} million MACs are delegated, fewer than {wanted:g} million")
        if self.partitions > self.rules.most_partitions:
            left = ", ".join(dict.fromkeys(row.operator for row in self.refused))
            found.append(f"{self.partitions} partitions, more than {self.rules.most_partitions}, separated by {left}")
        return tuple(found)

    @property
    def sentence(self) -> str:
        """The result in words."""
        partitions = f"{self.kept} partition{'' if self.kept == 1 else 's'}"
        if self.kept < self.partitions:
            partitions += f" of {self.partitions}"
        part = f"{self.share:.0%} of the arithmetic ({self.taken} of {self.operators} operators, {partitions})"
        head = f"{self.rules.title} runs {part}"
        return f"{head}: not worth it, {'; '.join(self.objections)}" if self.objections else f"{head}: worth it"

    @property
    def reasons(self) -> dict[str, int]:
        """Number of operators that the accelerator does not run by reason, the most frequent first."""
        counts: dict[str, int] = {}
        for row in self.refused:
            counts[row.reason] = counts.get(row.reason, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    def to_json(self) -> dict[str, object]:
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
    """Return the delegation of a file's main graph to an accelerator."""
    reasons = list(rules.refusals(model))
    found = partitions(model, {index for index, reason in enumerate(reasons) if reason})
    macs = [cost.macs for cost in count(model).operators]
    kept = _delegated(found, rules, macs)
    delegated = {index for partition in kept for index in partition}
    for partition in found:
        for index in partition:
            if index not in delegated:
                reasons[index] = _not_delegated(rules)
    refused = tuple(Refused(i, model.operators[i].name, reason) for i, reason in enumerate(reasons) if reason)
    left = {row.index for row in refused}
    return Delegation(
        rules=rules,
        operators=len(reasons),
        taken=len(reasons) - len(left),
        macs=sum(macs),
        taken_macs=sum(number for index, number in enumerate(macs) if index not in left),
        partitions=len(found),
        kept=len(kept),
        refused=refused,
    )


def partitions(model: Model, left: set[int]) -> list[list[int]]:
    """Return the partitions that the runtime forms of all operators except ``left``.

    An operator that only expands constants (float16 to float32) runs once, when the file is loaded, and belongs to no
    partition.
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


def _delegated(found: Sequence[list[int]], rules: Rules, macs: Sequence[int]) -> list[list[int]]:
    """Return the partitions that the runtime delegates."""
    large = [piece for piece in found if len(piece) >= rules.least_operators]
    if not rules.keeps_first:
        large.sort(key=lambda piece: (-sum(macs[index] for index in piece), -len(piece), piece[0]))
    return large[: rules.keeps]


def _not_delegated(rules: Rules) -> str:
    """Return why a supported partition is not delegated."""
    if rules.keeps is None:
        return f"in a partition of fewer than {rules.least_operators} operators"
    which = "first" if rules.keeps_first else "largest"
    delegated = "partition" if rules.keeps == 1 else f"{rules.keeps} partitions"
    return f"outside the {which} {delegated}; only {'this one is' if rules.keeps == 1 else 'these are'} delegated"
