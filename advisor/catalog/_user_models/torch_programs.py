"""Run a checked ``.pt2`` in PyTorch, and write it as ONNX.

`formats.py` converts a user's ``.pt2`` so, and compares the converted file with the program.
PyTorch reads the copy of :func:`.write_copy` only, never the user's file. A card that
was added keeps its file, so a change here needs no new version.
"""

import importlib.util
import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog._user_models.comparison import OriginalLayer
from advisor.catalog._user_models.onnx_files import ONNX2TF_VERSION
from advisor.catalog._user_models.pt2 import EXPORT, write_copy
from advisor.catalog._weights.readers import Array
from advisor.core import UsageError, install_extra, message_of


def require_torch(file: Path) -> None:
    """Check that PyTorch is there; UsageError if the extra ``torch`` is not installed."""
    missing = []
    for name in ("torch", "onnxscript"):
        if importlib.util.find_spec(name) is None:
            missing.append(name)
    if missing:
        raise UsageError(
            f"{file}: a .pt2 file needs {' and '.join(missing)}",
            f"{install_extra('torch')}; or write an ONNX file where PyTorch is: torch.onnx.export",
        )


class TorchProgram:
    """A user's ``.pt2`` in PyTorch; it reads the copy of :func:`.write_copy` only.

    Raises:
        UsageError: the archive is refused, or the extra ``torch`` is not installed.
    """

    def __init__(self, file: Path) -> None:
        require_torch(file)
        import torch

        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "model.pt2"
            archive_facts = write_copy(file, copy)
            self.side = archive_facts.side
            self._program = _load_archive(copy, file, archive_facts.torch)
        self.runtime = f"torch {torch.__version__}"
        self.converter = f"torch.onnx {torch.__version__}, onnx2tf {ONNX2TF_VERSION}"

    def write_onnx(self, target: Path) -> None:
        """Write the program as one ONNX file: ``image`` (1, 3, S, S) to ``scores``."""
        import torch

        image = torch.zeros(1, 3, self.side, self.side)
        quiet = {"dynamo": True, "external_data": False, "verbose": False}
        names = {"input_names": ["image"], "output_names": ["scores"]}
        torch.onnx.export(self._program, (image,), str(target), **quiet, **names)

    def scores(self, images: Array) -> Array:
        """Return the scores (N, C) of normalised images (N, S, S, 3)."""
        import torch

        module = self._program.module()
        with torch.no_grad():
            return np.stack([module(_make_tensor(image)).numpy().reshape(-1) for image in images])

    def layers(self, image: Array) -> Sequence[OriginalLayer]:
        """Return what every operator computes of one image (1, S, S, 3).

        A layer is named by its weights where it has some.
        """
        import torch

        recorded: list[OriginalLayer] = []
        names: dict[Any, str] = {}

        class Recorder(torch.fx.Interpreter):  # type: ignore[misc]
            def run_node(self, node: Any) -> Any:
                value = super().run_node(node)
                if node.op == "call_function" and torch.is_tensor(value):
                    names[node] = _name_node(node)
                    sources = []
                    for input_node in node.all_input_nodes:
                        if input_node in names:
                            sources.append(names[input_node])
                    operator = str(node.target).removeprefix("aten.").partition(".")[0]
                    # A copy: later operators may write into the same memory.
                    values = value.numpy().copy()
                    recorded.append(OriginalLayer(names[node], operator, tuple(sources), values))
                return value

        with torch.no_grad():
            Recorder(self._program.module()).run(_make_tensor(image[0]))
        return recorded


def _load_archive(copy: Path, file: Path, written: str) -> Any:
    """Load a checked archive; PyTorch writes the cause of a failure to its log only."""
    import torch

    causes: list[BaseException] = []

    class Causes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and isinstance(record.exc_info[1], BaseException):
                causes.append(record.exc_info[1])

    log = logging.getLogger(torch.export.__name__)
    handler = Causes()
    log.addHandler(handler)
    try:
        return torch.export.load(str(copy))
    except Exception as error:
        reason = message_of(causes[0] if causes else error)
        raise UsageError(
            f"{file}: PyTorch {written} wrote it, and PyTorch {torch.__version__} cannot read it:"
            f" {reason}",
            EXPORT,
        ) from error
    finally:
        log.removeHandler(handler)


def _make_tensor(image: Array) -> Any:
    """Return an image (S, S, 3) as PyTorch's (1, 3, S, S)."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)[None]))


def _name_node(node: Any) -> str:
    """Return the path of an operator's weights (``features.3.squeeze``), else its name."""
    attributes = []
    for input_node in node.all_input_nodes:
        if input_node.op == "get_attr":
            attributes.append(str(input_node.target))
    module = ""
    if attributes:
        module = attributes[0].rpartition(".")[0]
    if module:
        return f"{module} ({node.name})"
    return str(node.name)
