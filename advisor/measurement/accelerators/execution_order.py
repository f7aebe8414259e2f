"""Return the order in which the runtime executes a graph that it shares with a delegate."""

from __future__ import annotations

from advisor.tflite.model import Model


def execution_order(model: Model, builtin: set[int]) -> list[int]:
    """Return the operators' indices in the order of execution if all but ``builtin`` run in a delegate.

    The runtime forms partitions: each takes every operator of its side (builtin or delegated) whose inputs are ready,
    then the other side follows (``PartitionGraphIntoIndependentNodeSubsets`` in TensorFlow Lite).
    """
    ready = {index for index, tensor in enumerate(model.tensors) if tensor.is_constant} | {-1}
    ready |= set(model.subgraphs[0].inputs)
    ready |= {index for index, tensor in enumerate(model.tensors) if tensor.is_variable}
    left, order = list(range(len(model.operators))), list[int]()
    while left:
        side = next((index in builtin for index in left if set(model.operators[index].inputs) <= ready), None)
        if side is None:
            return order + left
        for index in list(left):
            operator = model.operators[index]
            if (index in builtin) is side and set(operator.inputs) <= ready:
                order.append(index)
                left.remove(index)
                ready |= set(operator.outputs)
    return order
