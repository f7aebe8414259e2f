"""Unpack a `.tflite` file into editable tables, and select one of its outputs.

All edits of the room, and makers of files in other rooms, begin with :func:`unpack` and change
the :class:`Tables`.

Every edit of a file raises UsageError if it is damaged, and StageError if it cannot be edited:
most edits need exactly one subgraph and one signature. Descriptions (labels, normalization) are
dropped: they are written last.
"""

from advisor.core import StageError, nearest
from advisor.tflite._model import open_model, text_of
from advisor.tflite._tables import Tables


def unpack(data: bytes, name: str = "the model") -> Tables:
    """Return the tables of a file with all contents, without its description.

    A damaged file is a UsageError, which calls it ``name``; see also :meth:`Tables.make_editable`.
    """
    return open_model(data, name)[0].make_editable()


def select_output(data: bytes, name: str) -> bytes:
    """Keep every input and the output ``name`` of the signature; remove what it does not need.

    StageError is raised if the file has no such output.
    """
    model = unpack(data)
    graph, signature = model.find_single_graph()
    entries = []
    for entry in signature.outputs or []:
        if entry.name == name.encode():
            entries.append(entry)
    if not entries:
        names = [text_of(entry.name) for entry in signature.outputs or []]
        raise StageError(
            f"the model has no output '{name}'{nearest(name, names)}",
            f"It has: {', '.join(names)}.",
        )
    signature.outputs = entries[:1]
    graph.outputs = [entries[0].tensorIndex]
    model.prune_tensors(graph)
    return model.pack()
