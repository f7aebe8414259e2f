"""Make graph files: find how each constant of a converted network follows from its checkpoint,
and check the answers.

``python -m tools.graphs FOLDER`` reads what ``from_timm`` or ``from_detectors`` wrote to FOLDER,
writes ``catalogs/graphs/NAME.graph``, and prints a line for each network: bytes, constants, and
the largest relative difference from PyTorch's answers. These are computed with a second set of
weights, which took no part in finding the constants. The catalogue reads the files
(``advisor/catalog/_graph_file.py``), so their format is the same in both places.
"""

import io
import json
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain, permutations
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from advisor.catalog import run
from advisor.catalog._detector import ENCODINGS, LOGITS, MAP
from advisor.catalog._graph_file import CONSTANTS, GRAPH, BoxCode, GraphFile, read_graph
from advisor.catalog._user_models.classifier import PROBABILITIES, name_output, with_features
from advisor.catalog._weights.mapping import LayerSpec
from advisor.tflite import (
    BUILTINS,
    count,
    read,
    unpack,
    without_transposes,
)
from tools.graphs.branches import Branches

GRAPHS = Path(__file__).resolve().parents[2] / "catalogs" / "graphs"
CLOSE = {"rtol": 2e-4, "atol": 1e-6}
FEW = 8  # Values along an axis that are compared before all of them are
MOST = 1e-4  # Largest relative difference of an answer
Term = dict[str, Any]
Array = np.ndarray[Any, Any]


def main() -> None:
    folder = Path(sys.argv[1])
    for file in sorted(folder.glob("*.npz")):
        if len(sys.argv) == 2 or file.stem in sys.argv[2:]:
            try:
                make(file)
            except ValueError as error:
                print(f"{file.stem}: {error}", flush=True)


def make(file: Path) -> None:
    """Write the graph file of one network, if its answers are PyTorch's."""
    with np.load(file) as stored:
        about = json.loads(str(stored["about"]))
        sets = [
            {key[2:]: stored[key] for key in stored.files if key.startswith(f"{n}/")}
            for n in (0, 1)
        ]
        fused = {
            key.removeprefix("fused/"): stored[key]
            for key in stored.files
            if key.startswith("fused/")
        }
        images = stored["images"]
        answers = [
            stored[name] for name in ("answers", "answer0", "answer1") if name in stored.files
        ]
    weights = {
        key: value for key, value in sets[0].items() if not key.endswith("num_batches_tracked")
    }
    finder = Finder(weights, about["norms"], fused)
    converted = without_transposes(file.with_suffix(".tflite").read_bytes(), file.stem)
    if "detector" in about:
        make_detector(file.stem, converted, finder, about["detector"], sets[1], images, answers)
        return
    data = one_head(converted, finder)
    data, has_features = with_features(name_output(data, file.stem, "SOFTMAX"), file.stem)
    made = assembled(data, finder, {name: value.shape for name, value in weights.items()})
    differences, agree = list[float](), 0
    filled = made.fill_constants(sets[1])
    for image, wanted in zip(images, answers[0], strict=True):
        shares = np.exp(wanted - wanted.max())
        shares = shares / shares.sum()
        actual = run(filled, image[None])[PROBABILITIES].reshape(-1)
        differences.append(float(np.abs(actual - shares).max() / shares.max()))
        agree += int(actual.argmax() == shares.argmax())
    target = GRAPHS / f"{file.stem}.graph"
    if max(differences) > MOST:
        raise ValueError(f"its answers differ by {max(differences):.2g}")
    GRAPHS.mkdir(exist_ok=True)
    write(target, made)
    read_graph(target)
    same = f"agreement {agree / len(images):g}, difference {max(differences):.1g}"
    print(f"{file.stem}: {summary(made, target)}, features {has_features}, {same}", flush=True)


def make_detector(
    name: str,
    converted: bytes,
    finder: "Finder",
    said: Mapping[str, Any],
    second: Mapping[str, Array],
    images: Array,
    answers: Sequence[Array],
) -> None:
    """Write the graph file of a detector,
    if its logits and encodings are PyTorch's with the second set of weights.
    """
    shapes = {key: value.shape for key, value in finder.tensors.items()}
    made = replace(assembled(name_parts(converted), finder, shapes), boxes=BoxCode.from_json(said))
    filled = made.fill_constants(second)
    worst, agree = 0.0, 0
    for place, image in enumerate(images):
        outputs = run(filled, image[None])
        agree += int(
            outputs[LOGITS].max(axis=1).argmax() == answers[0][place].max(axis=0).argmax()
        )
        for output, wanted in zip((LOGITS, ENCODINGS), answers, strict=True):
            far = np.abs(outputs[output][0] - wanted[place]).max() / np.abs(wanted[place]).max()
            worst = max(worst, float(far))
    if worst > MOST:
        raise ValueError(f"its answers differ by {worst:.2g}")
    target = GRAPHS / f"{name}.graph"
    write(target, made, said)
    if read_graph(target).boxes != made.boxes:
        raise ValueError("the file was read as another detector")
    macs = count(read(filled)).macs
    same = f"agreement {agree / len(images):g}, difference {worst:.1g}"
    print(
        f"{name}: {summary(made, target)}, params {made.params}, macs {macs}, {same}", flush=True
    )


def name_parts(data: bytes) -> bytes:
    """Return a converted detector whose outputs are named: logits, encodings, and then maps."""
    model = unpack(data)
    (graph,) = model.subgraphs
    signature = model.signatureDefs[0]
    places = {entry.name.decode(): int(entry.tensorIndex) for entry in signature.outputs}
    ordered = [places[key] for key in sorted(places, key=lambda key: int(key.rpartition("_")[2]))]
    names = [LOGITS, ENCODINGS, *(f"{MAP}{number}" for number in range(len(ordered) - 2))]
    model.replace_signature(graph, "image", dict(zip(names, ordered, strict=True)))
    return model.pack()


def assembled(
    data: bytes,
    finder: "Finder",
    shapes: Mapping[str, tuple[int, ...]],
    layers: Sequence[LayerSpec] = (),
) -> GraphFile:
    """Return the graph of a converted file,
    without the constants that follow from the checkpoint of a finder.

    Constants that follow from no tensor belong to the graph;
    a second set of weights shows if they do not.
    """
    model = unpack(data)
    (graph,) = model.subgraphs
    for operator in graph.operators:
        # The converter moves PyTorch's places by half a pixel.
        if _kind(model, operator) == "RESIZE_NEAREST_NEIGHBOR":
            operator.builtinOptions.halfPixelCenters = False
    constants = dict[int, list[Term]]()
    for place, tensor in enumerate(graph.tensors):
        content = model.buffers[tensor.buffer].data
        tensor.name = f"t{place}".encode()
        if tensor.type != 0 or content is None or not len(content):
            continue
        value = values_of(model, tensor)
        terms = finder.terms(value) if value.size > 1 else finder.number(value)
        if terms is not None:
            constants[place] = terms
    for place in constants:
        # Constants can share a buffer; each gets its own, which is filled later.
        model.buffers.append(type(model.buffers[0])())
        graph.tensors[place].buffer = len(model.buffers) - 1
        model.buffers[-1].data = np.zeros(0, np.uint8)
    used = {tensor.buffer for tensor in graph.tensors} | {
        entry.buffer for entry in model.metadata or ()
    }
    for number, buffer in enumerate(model.buffers):
        if number not in used:
            buffer.data = None
    return GraphFile(model.pack(), constants, finder.norms, shapes, finder.indices, tuple(layers))


def summary(made: GraphFile, file: Path) -> str:
    """Return what a graph file has: bytes, constants, values of the graph itself,
    tensors that no constant needs.
    """
    needed = {
        name
        for terms in made.constants.values()
        for term in terms
        for name in _names(term, made.norms)
    }
    unused = len(made.shapes.keys() - needed)
    model = unpack(made.graph)
    (graph,) = model.subgraphs
    floats = [
        values_of(model, tensor)
        for tensor in graph.tensors
        if tensor.type == 0 and has_values(model, tensor)
    ]
    literals = sum(value.size for value in floats if value.size > 1)
    return (
        f"{file.stat().st_size:,} bytes, {len(made.constants)} constants, {literals} literals,"
        f" {unused} not used"
    )


def has_values(model: Any, tensor: Any) -> bool:
    """Return whether a tensor of an unpacked model is a constant."""
    content = model.buffers[tensor.buffer].data
    return content is not None and len(content) > 0


def values_of(model: Any, tensor: Any) -> Array:
    """Return the float32 constant of a tensor of an unpacked model."""
    shape = tuple(int(side) for side in (tensor.shape if tensor.shape is not None else ()))
    return np.frombuffer(
        np.asarray(model.buffers[tensor.buffer].data).tobytes(), dtype="<f4"
    ).reshape(shape)


def one_head(data: bytes, finder: "Finder") -> bytes:
    """Return a network whose answer is the mean of two linear heads,
    each after a BatchNorm or not, with one instead.

    The heads of a distilled network are such; the one that is left can be trained.
    Other networks stay as they are.
    """
    model = unpack(data)
    (graph,) = model.subgraphs
    made = {int(operator.outputs[0]): operator for operator in graph.operators}
    half = made[int(graph.outputs[0])]
    if _kind(model, half) != "MUL" or not {int(place) for place in half.inputs} & made.keys():
        return data
    both = made[next(int(place) for place in half.inputs if int(place) in made)]
    heads = [made.get(int(place)) for place in both.inputs]
    if (
        _kind(model, both) != "ADD"
        or [_kind(model, head) for head in heads] != ["FULLY_CONNECTED"] * 2
    ):
        return data
    kernel, bias, gone = list[Term](), list[Term](), [both, heads[1], half]
    source = heads[0].inputs[0]
    for head in heads:
        (weights,), (bias_term,) = (
            finder.terms(values_of(model, graph.tensors[place])) or ()
            for place in head.inputs[1:3]
        )
        bias.append({**bias_term, "times": [[0.5, 0]]})
        shift = made[int(head.inputs[0])]
        if _kind(model, shift) != "ADD":
            kernel.append({**weights, "times": [[0.5, 0]]})
            continue
        scale = made[int(shift.inputs[0])]
        (norm,) = finder.terms(values_of(model, graph.tensors[scale.inputs[1]])) or ()
        gone += [shift, scale]
        source = scale.inputs[0]
        kernel.append({**weights, "times": [[norm["scale"], 1], [0.5, 0]]})
        bias.append({"matrix": weights["from"], "by": norm["scale"], "times": [[0.5, 0]]})
    first = heads[0]
    first.inputs[0], first.outputs[0] = source, half.outputs[0]
    for place, terms in ((first.inputs[1], kernel), (first.inputs[2], bias)):
        value = finder.sum_of(terms)
        model.buffers[graph.tensors[place].buffer].data = np.frombuffer(value.tobytes(), np.uint8)
    graph.operators = [
        operator for operator in graph.operators if all(operator is not other for other in gone)
    ]
    return model.pack()


def _kind(model: Any, operator: Any) -> str:
    if operator is None:  # a constant
        return ""
    code = model.operatorCodes[operator.opcodeIndex]
    return BUILTINS.get(max(code.builtinCode, code.deprecatedBuiltinCode), "")


def _names(term: Term, norms: Mapping[str, float]) -> Iterator[str]:
    used = [
        term.get(key) for key in ("from", "bias", "matrix", "by", "shift", "scale", "deviation")
    ]
    for name in (*used, *(factor for factor, _ in term.get("times", ()))):
        if name in norms:
            yield from (
                f"{name}.{part}" for part in ("weight", "bias", "running_mean", "running_var")
            )
        elif isinstance(name, str):
            yield name


def write(path: Path, graph: GraphFile, detector: Mapping[str, Any] | None = None) -> None:
    """Write a graph file; equal graphs give equal bytes.
    ``detector`` is what the file says of a detector's boxes.
    """
    said: dict[str, Any] = {
        "norms": graph.norms,
        "shapes": graph.shapes,
        "constants": graph.constants,
    }
    if detector:
        said["detector"] = detector
    if graph.layers:
        said["layers"] = [[layer.name, layer.kind, [*layer.shapes]] for layer in graph.layers]
    members = {GRAPH: graph.graph, CONSTANTS: json.dumps(said, separators=(",", ":")).encode()}
    for name, index in graph.indices.items():
        held = io.BytesIO()
        np.save(held, index)
        members[name] = held.getvalue()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_LZMA)


class Finder:
    """Finds how constants follow from a checkpoint; ``fused`` are sums of its branches, by
    name.
    """

    def __init__(
        self,
        tensors: Mapping[str, Array],
        norms: Mapping[str, float],
        fused: Mapping[str, Array] = MappingProxyType({}),
    ) -> None:
        self._tensors = self.tensors = tensors
        self.norms = norms
        self.indices: dict[str, Array] = {}
        self._graph = GraphFile(b"", {}, norms, {}, self.indices)
        self._branches = Branches(self._graph, tensors, fused)
        self._sums: dict[bytes, list[Term]] = {}
        self._scales = {norm: self._graph.scale(norm, tensors) for norm in norms}
        vectors = {
            name: value.reshape(-1)
            for name, value in tensors.items()
            if value.size == max(value.shape, default=0)
        }
        self._vectors = {
            name: value
            for name, value in vectors.items()
            if not name.endswith(("running_mean", "running_var"))
        }

    def terms(self, value: Array) -> list[Term] | None:
        """Return the terms of a constant; None if there are none."""
        if value.tobytes() in self._sums:
            return self._sums[value.tobytes()]
        if fused := self._branches.terms(value, _orders(4)):
            return fused
        early = ([term] for term in chain(self._moved(value), self._scaled(value)))
        late = ([term] for term in chain(self._shifts(value), self._gathered(value)))
        return next(chain(early, self._raised(value), late, self._through(value)), None)

    def number(self, value: Array) -> list[Term] | None:
        """Return the term of a single number;
        None if no tensor has it, so that it is one of the graph's own.
        """
        name = self._factor(value.item())
        return [{"from": name}] if isinstance(name, str) else None

    def _factor(self, value: float) -> str | float:
        """Return the name of the tensor whose only value this is;
        the value itself if there is none.
        """
        far, name = min(
            ((abs(vector[0] / value - 1), name) for name, vector in self._of_size(1)),
            default=(1.0, ""),
        )
        return name if far < CLOSE["rtol"] else float(value)

    def sum_of(self, terms: list[Term]) -> Array:
        """Return the sum of terms, which is known from then on."""
        value: Array = reduce(
            np.add, (self._graph.term(term, self._tensors) for term in terms)
        ).astype("<f4")
        self._sums[value.tobytes()] = terms
        return value

    def _raised(self, value: Array) -> Iterator[list[Term]]:
        """Yield a bias plus a number, such as the 3 of a hard sigmoid."""
        flat = value.reshape(-1)
        plain = [
            {"from": name, "axes": [*range(self._tensors[name].ndim)]} for name in self._vectors
        ]
        for term in (*plain, *({"shift": norm} for norm in self.norms)):
            bias = self._graph.term(term, self._tensors).reshape(-1)
            if bias.size == flat.size and np.allclose(
                flat - bias, (flat - bias)[0], rtol=1e-5, atol=1e-5
            ):
                yield [term, {"number": round(float((flat - bias)[0]), 5)}]

    def _alike(self, size: int) -> Iterator[tuple[str, Array]]:
        for name, tensor in self._tensors.items():
            if tensor.size == size:
                yield name, tensor

    def _moved(self, value: Array) -> Iterator[Term]:
        flat = value.reshape(-1)
        places = np.linspace(0, flat.size - 1, min(flat.size, FEW**2)).astype(int)
        for name, tensor in self._alike(value.size):
            for axes in _orders(tensor.ndim):
                moved = tensor.transpose(axes)
                if not np.array_equal(moved[np.unravel_index(places, moved.shape)], flat[places]):
                    continue
                if np.array_equal(moved.reshape(-1), flat):
                    yield {"from": name, "axes": axes}

    def _scaled(self, value: Array) -> Iterator[Term]:
        """Yield a tensor of which each output channel is multiplied by a number,
        and each input channel by another.
        """
        if value.ndim < 2:
            return
        for name, tensor in self._alike(value.size):
            for axes in _orders(tensor.ndim) if tensor.ndim > 1 else ():
                moved = tensor.transpose(axes)
                if tuple(side for side in moved.shape if side > 1) != tuple(
                    side for side in value.shape if side > 1
                ):
                    continue
                alike = value.reshape(moved.shape)
                few = _ratio(_some(alike), _some(moved))
                if few.ndim > 2 and not any(
                    _constant_beside(few, along) for along in range(few.ndim)
                ):
                    continue
                ratio = _ratio(alike, moved)
                for along in range(moved.ndim):
                    yield from self._by_axes(ratio, along, {"from": name, "axes": axes})

    def _by_axes(self, ratio: Array, along: int, term: Term) -> Iterator[Term]:
        least, most = _bounds(ratio, along)
        if np.allclose(least, most, **CLOSE):
            for times in self._products(least, along):
                yield {**term, "times": times}
            return
        if ratio.ndim != 2 or along:
            return
        for name, vector in self._of_size(ratio.shape[1]):
            left = ratio / vector
            if np.allclose(np.nanmin(left, axis=1), np.nanmax(left, axis=1), **CLOSE):
                for times in self._products(np.nanmin(left, axis=1), 0):
                    yield {**term, "times": [*times, [name, 1]]}

    def _of_size(self, size: int) -> Iterator[tuple[str, Array]]:
        for name, vector in chain(self._scales.items(), self._vectors.items()):
            if vector.size == size and vector.all():
                yield name, vector

    def _products(self, wanted: Array, axis: int = 0) -> Iterator[list[Any]]:
        """Yield factors whose product is a vector: scales of BatchNorm, other vectors, a
        number.
        """
        if not np.isfinite(wanted).all():
            return
        if np.allclose(wanted, wanted[0], **CLOSE):
            yield [[self._factor(wanted[0]), axis]]
        alike = list(self._of_size(wanted.size))
        for name, vector in alike:
            left = wanted / vector
            if np.allclose(left, left[0], **CLOSE):
                alone = np.isclose(left[0], 1.0, **CLOSE)
                yield [[name, axis]] if alone else [[name, axis], [self._factor(left[0]), axis]]
        for name, vector in alike:
            for other, more in alike:
                if np.allclose(vector * more, wanted, **CLOSE):
                    yield [[name, axis], [other, axis]]

    def _shifts(self, value: Array) -> Iterator[Term]:
        """Yield what a BatchNorm adds, after a bias, or multiplies by; or a bias with factors."""
        flat = value.reshape(-1)
        norms = [norm for norm, scale in self._scales.items() if scale.size == flat.size]
        biases = [name for name, vector in self._vectors.items() if vector.size == flat.size]
        for norm in norms:
            if np.allclose(self._scales[norm], flat, **CLOSE):
                yield {"scale": norm}
            for power in (1, -1):
                if np.allclose(self._graph.deviation(norm, self._tensors) ** power, flat, **CLOSE):
                    yield {"deviation": norm, "power": power}
            for bias in (None, *biases):
                plain: Term = {"shift": norm, "bias": bias}
                if np.allclose(self._graph.term(plain, self._tensors), flat, rtol=2e-4, atol=1e-5):
                    yield plain
                    return
        after = (
            {"shift": norm, "bias": name}
            for norm in norms
            for name in biases
            if _beside(norm, name)
        )
        for term in (
            *({"shift": norm} for norm in norms),
            *after,
            *(self._plain(name) for name in biases),
        ):
            plain_value = self._graph.term(term, self._tensors).reshape(-1)
            for name, factor in self._of_size(flat.size):  # values near zero have no exact ratio
                if np.allclose(plain_value * factor, flat, rtol=2e-4, atol=1e-5):
                    yield {**term, "times": [[name, 0]]}
            with np.errstate(all="ignore"):
                ratio = flat / plain_value
            for times in self._products(ratio):
                yield {**term, "times": times}

    def _plain(self, name: str) -> Term:
        return {"from": name, "axes": [*range(self._tensors[name].ndim)]}

    def _through(self, value: Array) -> Iterator[list[Term]]:
        """Yield a bias and what a linear layer makes of an offset before it."""
        flat = value.reshape(-1)
        plain = [
            self._plain(name) for name, vector in self._vectors.items() if vector.size == flat.size
        ]
        norms = [
            {"shift": norm} for norm, scale in self._scales.items() if scale.size == flat.size
        ]
        pairs = [
            {"matrix": matrix, "by": vector}
            for matrix, tensor in self._tensors.items()
            if tensor.ndim > 1 and len(tensor) == flat.size
            for vector, size in (
                *(
                    (name, vector.size)
                    for name, vector in self._vectors.items()
                    if not name.endswith("weight")
                ),
                *((norm, scale.size) for norm, scale in self._scales.items()),
            )
            if size in (1, tensor.size // len(tensor))
        ]
        for pair in pairs:
            product = self._graph.term(pair, self._tensors)
            for bias in (*plain, *norms):
                if np.allclose(
                    product + self._graph.term(bias, self._tensors).reshape(-1),
                    flat,
                    rtol=2e-4,
                    atol=2e-5,
                ):
                    yield [pair, bias]
            for norm in norms:
                scaled = {**pair, "times": [[norm["shift"], 0]]}
                shifted = self._graph.term(scaled, self._tensors) + self._graph.term(
                    norm, self._tensors
                )
                if np.allclose(shifted, flat, rtol=2e-4, atol=2e-5):
                    yield [scaled, norm]

    def _gathered(self, value: Array) -> Iterator[Term]:
        """Yield a tensor of which the constant has some values,
        such as biases of attention by distance.
        """
        flat = value.reshape(-1)
        if len(np.unique(flat)) < 3:
            return
        for name, tensor in self._tensors.items():
            values = tensor.reshape(-1)
            order = np.argsort(values)
            places = np.searchsorted(values[order], flat)
            if (places < values.size).all() and np.array_equal(values[order][places], flat):
                key = f"{len(self.indices)}.npy"
                self.indices[key] = order[places].astype(np.uint32)
                yield {"from": name, "index": key}
                return


def _some(value: Array) -> Array:
    """Return some values of every axis, at the same places in all arrays of one shape."""
    return value[
        np.ix_(*(np.linspace(0, side - 1, min(side, FEW)).astype(int) for side in value.shape))
    ]


def _ratio(value: Array, to: Array) -> Array:
    # A random weight can be zero, and then says nothing.
    return np.divide(value, to, np.full(to.shape, np.nan), where=to != 0)


def _bounds(ratio: Array, along: int) -> tuple[Array, Array]:
    """Return the least and the largest ratio at each index of an axis."""
    rows = np.moveaxis(ratio, along, 0).reshape(ratio.shape[along], -1)
    return np.nanmin(rows, axis=1), np.nanmax(rows, axis=1)


def _constant_beside(ratio: Array, along: int) -> bool:
    return np.allclose(*_bounds(ratio, along), **CLOSE)


def _beside(norm: str, bias: str) -> bool:
    """Return whether a BatchNorm and the layer with a bias are parts of one module."""
    return (
        bias.endswith(".bias")
        and norm.rpartition(".")[0] == bias.rpartition(".")[0].rpartition(".")[0]
    )


def _orders(count: int) -> Sequence[list[int]]:
    return [list(order) for order in permutations(range(count))]


if __name__ == "__main__":
    main()
