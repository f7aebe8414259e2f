"""Compute which operators of a file an accelerator would run,
in how many partitions and in which order.

Nothing runs here: the rules of the accelerator decide, and the runtime's way to form partitions.
Benchmarks, profiles and reports show a :class:`Delegation`; its ``entries`` are keys of their JSON
documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from advisor.core import Written, plural
from advisor.measurement._accelerators import Accelerator
from advisor.measurement._operator_facts import expands_constants
from advisor.tflite import Model, count


@dataclass(frozen=True)
class RefusedOperator:
    """An operator that the accelerator does not run."""

    index: int  #: its number in the file, from 0
    operator: str  #: its type
    reason: str  #: why it is not run


@dataclass(frozen=True)
class Delegation(Written):
    """The delegation of a file to an accelerator."""

    entries = (
        "accelerator=accelerator.name",
        "title=accelerator.title",
        "provenance",
        "sources=accelerator.sources",
        "share",
        "operators",
        "taken",
        "macs",
        "taken_macs",
        "partitions",
        "partitions_kept=kept",
        "worth_it",
        "objections",
        "sentence",
        "refused",
    )
    provenance = "computed"

    accelerator: Accelerator  #: the accelerator with its rules
    operators: int  #: number of operators in the file
    taken: int  #: number of operators that the accelerator runs
    macs: int  #: multiply-accumulates of a run
    taken_macs: int  #: multiply-accumulates that the accelerator runs
    partitions: int  #: number of partitions that the supported operators form
    kept: int  #: number of partitions that the runtime delegates
    #: the operators that the accelerator does not run, in the order of the file
    refused: tuple[RefusedOperator, ...]

    @property
    def share(self) -> float:
        """Share of the arithmetic that the accelerator runs, 0-1;
        share of the operators if there is no arithmetic.
        """
        if self.macs:
            return self.taken_macs / self.macs
        return self.taken / self.operators if self.operators else 0.0

    @property
    def objections(self) -> tuple[str, ...]:
        """Reasons against the accelerator for this file, each with its figure;
        empty if it is worth it.
        """
        if not self.taken:
            reason = next(iter(self.reasons), "")
            return (f"it runs no operator: {reason}" if reason else "it runs no operator",)
        reasons = []
        if self.taken_macs < self.accelerator.least_macs:
            wanted = self.accelerator.least_macs / 1e6
            reasons.append(
                f"only {self.taken_macs / 1e6:.2f} million MACs are delegated, fewer than"
                f" {wanted:g} million"
            )
        if self.partitions > self.accelerator.most_partitions:
            left = ", ".join(dict.fromkeys(row.operator for row in self.refused))
            reasons.append(
                f"{self.partitions} partitions, more than {self.accelerator.most_partitions},"
                f" separated by {left}"
            )
        return tuple(reasons)

    @property
    def worth_it(self) -> bool:
        """True if there are no objections."""
        return not self.objections

    @property
    def sentence(self) -> str:
        """The result in words."""
        partitions = plural(self.kept, "partition")
        if self.kept < self.partitions:
            partitions += f" of {self.partitions}"
        part = (
            f"{self.share:.0%} of the arithmetic ({self.taken} of {self.operators} operators,"
            f" {partitions})"
        )
        head = f"{self.accelerator.title} runs {part}"
        if self.objections:
            return f"{head}: not worth it, {'; '.join(self.objections)}"
        return f"{head}: worth it"

    @property
    def reasons(self) -> dict[str, int]:
        """Number of operators that the accelerator does not run by reason,
        the most frequent first.
        """
        return dict(Counter(row.reason for row in self.refused).most_common())

    @classmethod
    def of_operators(cls, model: Model, accelerator: Accelerator) -> Delegation:
        """Return the delegation of a file's main graph to an accelerator."""
        reasons = list(accelerator.refusals(model))
        pieces = form_partitions(model, {index for index, reason in enumerate(reasons) if reason})
        macs = [cost.macs for cost in count(model).operators]
        delegated_pieces, reason_of_others = _select_partitions(pieces, accelerator, macs)
        delegated = set(chain.from_iterable(delegated_pieces))
        for index in chain.from_iterable(pieces):
            if index not in delegated:
                reasons[index] = reason_of_others
        refused = []
        for index, reason in enumerate(reasons):
            if reason:
                refused.append(RefusedOperator(index, model.operators[index].name, reason))
        refused_macs = sum(macs[row.index] for row in refused)
        return cls(
            accelerator=accelerator,
            operators=len(reasons),
            taken=len(reasons) - len(refused),
            macs=sum(macs),
            taken_macs=sum(macs) - refused_macs,
            partitions=len(pieces),
            kept=len(delegated_pieces),
            refused=tuple(refused),
        )


def form_partitions(model: Model, left: set[int]) -> list[list[int]]:
    """Return the partitions that the runtime forms of all operators except ``left``.

    An operator that only expands constants (float16 to float32) runs once, when the file is
    loaded, and belongs to no partition.
    """
    order = []
    for index in execution_order(model, left):
        # Operators that read constants alone do not depend on the image.
        if index in left or not expands_constants(model, model.operators[index]):
            order.append(index)
    partitions = []
    for is_refused, indices in groupby(order, key=left.__contains__):
        if not is_refused:
            partitions.append(list(indices))
    return partitions


def execution_order(model: Model, builtin: set[int]) -> list[int]:
    """Return the operators' indices in the order of execution if all
    but ``builtin`` run in a delegate.

    The runtime forms partitions: each takes every operator of its side (builtin or delegated)
    whose inputs are ready, then the other side follows
    (``PartitionGraphIntoIndependentNodeSubsets`` in TensorFlow Lite).
    """
    # -1 stands for an optional input that is missing.
    ready = {-1, *model.subgraphs[0].inputs}
    for index, tensor in enumerate(model.tensors):
        if tensor.is_constant or tensor.is_variable:
            ready.add(index)
    waiting = list(range(len(model.operators)))
    order = list[int]()
    while waiting:
        runnable = [index for index in waiting if ready.issuperset(model.operators[index].inputs)]
        # An input that no operator gives: the rest is listed as it stands in the file.
        if not runnable:
            return order + waiting
        # The first operator that is ready decides whose partition comes next.
        is_builtin = runnable[0] in builtin
        for index in list(waiting):
            operator = model.operators[index]
            if (index in builtin) is is_builtin and ready.issuperset(operator.inputs):
                order.append(index)
                waiting.remove(index)
                ready.update(operator.outputs)
    return order


def _select_partitions(
    pieces: Sequence[list[int]], accelerator: Accelerator, macs: Sequence[int]
) -> tuple[list[list[int]], str]:
    """Return the partitions that the runtime delegates, and why not the others."""
    large = [piece for piece in pieces if len(piece) >= accelerator.least_operators]
    keeps = accelerator.keeps
    if keeps is None:
        return large, f"in a partition of fewer than {accelerator.least_operators} operators"
    if keeps.choose == "largest":
        # By arithmetic, then operators;
        # the position decides between equal ones, so that the order is always the same.
        large.sort(key=lambda piece: (-sum(macs[index] for index in piece), -len(piece), piece[0]))
    which = "partition; only this one is"
    if keeps.pieces > 1:
        which = f"{keeps.pieces} partitions; only these are"
    return large[: keeps.pieces], f"outside the {keeps.choose} {which} delegated"
