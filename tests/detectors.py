"""A small detector that finds coloured cells, and images for it: a foreign detector without a training."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from PIL import Image

from advisor.tflite import CENTRES, Metadata, Suppression, unpack
from tests.tflite.graphs import INT32, Graph

COLOURS = ("red", "green", "blue")
SIDE, CELL = 32, 8
CELLS = SIDE // CELL
SURE = 6.0  # Logit of a cell that is full of a colour


def raw_detector(shift: float = 0.0) -> bytes:
    """A float detector before post-processing: for each of 16 cells a score of each colour, and a box."""
    graph, builtin = Graph(), schema.BuiltinOperator
    image, means = _cell_means(graph)
    logits = _rows(graph, _convolved(graph, means, SURE * np.eye(3)[:, None, None, :], 1, shift), "logits")
    shift = np.array([[0.1, 0.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.1], [0.1, 0.0, 0.1]])
    encodings = _rows(graph, _convolved(graph, means, shift[:, None, None, :], 1), "encodings")
    scores = graph.tensor("scores", (1, CELLS**2, 3))
    graph.operator(builtin.LOGISTIC, [logits], [scores])
    return graph.finish({"image": image}, {"encodings": encodings, "scores": scores})


def marker_file(path: Path) -> Path:
    """Write a network that marks the centres of the same cells: a map of 4 x 4 scores of each colour."""
    graph = Graph()
    image, means = _cell_means(graph)
    logits = _convolved(graph, means, SURE * np.eye(3)[:, None, None, :], 1)
    scores = graph.tensor(CENTRES, (1, CELLS, CELLS, 3))
    graph.operator(schema.BuiltinOperator.LOGISTIC, [logits], [scores])
    data = graph.finish({"image": image}, {CENTRES: scores})
    path.write_bytes(Metadata("cells", COLOURS, (127.5,), (127.5,), licence="MIT").write_into(data))
    return path


def mask_content() -> bytes:
    """Return a network that tells red and green pixels from the background."""
    graph, image = Graph.with_image((1, SIDE, SIDE, 3))
    kernel = np.array([[0.0, 0.0, 0.0], [1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]])[:, None, None, :]
    logits = _convolved(graph, image, kernel, 1, side=SIDE)
    scores = graph.tensor("scores", (1, SIDE, SIDE, 3))
    graph.operator(schema.BuiltinOperator.SOFTMAX, [logits], [scores], schema.SoftmaxOptionsT(beta=1.0))
    data = graph.finish({"image": image}, {"scores": scores})
    return Metadata("cells", ("background", "red", "green"), (127.5,), (127.5,), licence="MIT").write_into(data)


def _cell_means(graph: Graph) -> tuple[int, int]:
    image = graph.tensor("image", (1, SIDE, SIDE, 3))
    kernel = np.eye(3)[:, None, None, :] * np.ones((1, CELL, CELL, 1)) / CELL**2
    return image, _convolved(graph, image, kernel, CELL)


def _convolved(
    graph: Graph, source: int, kernel: np.ndarray, stride: int, shift: float = 0.0, side: int = CELLS
) -> int:
    number = len(graph.graph.tensors)
    weights = graph.tensor(f"kernel{number}", kernel.shape, kernel.astype(np.float32))
    bias = graph.tensor(f"bias{number}", (len(kernel),), np.full(len(kernel), shift, np.float32))
    result = graph.tensor(f"map{number}", (1, side, side, len(kernel)))
    options = schema.Conv2DOptionsT(padding=schema.Padding.VALID, strideW=stride, strideH=stride)
    graph.operator(schema.BuiltinOperator.CONV_2D, [source, weights, bias], [result], options)
    return result


def _rows(graph: Graph, source: int, name: str) -> int:
    shape = (1, CELLS**2, int(graph.graph.tensors[source].shape[-1]))
    sides = graph.tensor(f"{name}/shape", (3,), np.array(shape, np.int32), INT32)
    rows = graph.tensor(name, shape)
    options = schema.ReshapeOptionsT(newShape=list(shape))
    graph.operator(schema.BuiltinOperator.RESHAPE, [source, sides], [rows], options)
    return rows


def detector_file(
    path: Path, labels: Sequence[str] | None = COLOURS, order: Sequence[int] = (3, 0, 2, 1), raw: bytes | None = None
) -> Path:
    """Write the detector as another converter does: no signature, outputs in an order of its own."""
    centres = (np.arange(CELLS) + 0.5) / CELLS
    places = np.stack(np.meshgrid(centres, centres, indexing="ij"), -1).reshape(-1, 2)
    anchors = np.concatenate([places, np.full_like(places, 1 / CELLS)], 1).astype(np.float32)
    data = Suppression(10, score=0.05).append_to(raw or raw_detector(), anchors)
    if labels is not None:
        data = Metadata("cells", tuple(labels), (127.5,), (127.5,), licence="MIT").write_into(data)
        if tuple(order) == (0, 1, 2, 3):
            path.write_bytes(data)
            return path
    path.write_bytes(reordered(data, order))
    return path


def reordered(data: bytes, order: Sequence[int]) -> bytes:
    """Return a detector without a signature, its outputs in another order, its description behind it."""
    from advisor.tflite import Metadata

    said, model = Metadata.read(data), unpack(data)
    graph = model.subgraphs[0]
    model.signatureDefs = []
    graph.outputs = [graph.outputs[place] for place in order]
    return model.pack() if said is None else said.write_into(model.pack())


def write_cells(root: Path, count: int = 40, names: Sequence[str] = COLOURS) -> Path:
    """Write dark images with two coloured cells each, and a table of their boxes; return the table."""
    draw = np.random.default_rng(0)
    root.mkdir(parents=True)
    rows = ["path,label,xmin,ymin,xmax,ymax"]
    for number in range(count):
        pixels = draw.integers(0, 100, (SIDE, SIDE, 3), dtype=np.uint8)
        for cell in draw.choice(CELLS**2, 2, replace=False).tolist():
            colour, (top, left) = int(draw.integers(3)), (CELL * (cell // CELLS), CELL * (cell % CELLS))
            pixels[top : top + CELL, left : left + CELL] = 255 * np.eye(3, dtype=np.uint8)[colour]
            rows.append(f"{number}.png,{names[colour]},{left},{top},{left + CELL},{top + CELL}")
        Image.fromarray(pixels).save(root / f"{number}.png")
    (root / "boxes.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return root / "boxes.csv"
