"""Read a checked ``.pt2`` in PyTorch: write it as ONNX, and run it to verify what was made of it."""

import importlib.util
import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog.user_models import pt2_archive
from advisor.catalog.user_models.comparison import OriginalLayer
from advisor.catalog.user_models.onnx_files.graph import VERSION
from advisor.catalog.weights.readers import Array
from advisor.core.errors import UsageError, install_extra, message_of

_NEEDED = ("torch", "onnxscript")


def require_torch(file: Path) -> None:
    """Check that PyTorch is there to read a file.

    Raises:
        UsageError: the extra ``torch`` is not installed.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{file}: a .pt2 file needs {' and '.join(missing)}",
            f"{install_extra('torch')}; or write an ONNX file where PyTorch is: torch.onnx.export",
        )


class TorchProgram:
    """A user's ``.pt2`` in PyTorch; it reads the copy of :func:`.pt2_archive.write_copy` only.

    Raises:
        UsageError: the archive is refused, or the extra ``torch`` is not installed.
    """

    def __init__(self, file: Path) -> None:
        require_torch(file)
        import torch

        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "model.pt2"
            found = pt2_archive.write_copy(file, copy)
            self.side, self._program = found.side, _loaded(copy, file, found.torch)
        self.runtime = f"torch {torch.__version__}"
        self.converter = f"torch.onnx {torch.__version__}, onnx2tf {VERSION}"

    def write_onnx(self, target: Path) -> None:
        """Write the program as one ONNX file with the input ``image`` (1, 3, S, S) and the output ``scores``."""
        import torch

        image = torch.zeros(1, 3, self.side, self.side)
        torch.onnx.export(
            self._program,
            (image,),
            str(target),
            dynamo=True,
            external_data=False,
            verbose=False,
            input_names=["image"],
            output_names=["scores"],
        )

    def scores(self, images: Array) -> Array:
        """Return the scores (N, C) of normalised images (N, S, S, 3)."""
        import torch

        module = self._program.module()
        with torch.no_grad():
            rows = [module(_tensor(image)).numpy().reshape(-1) for image in images]
        return np.stack(rows)

    def layers(self, image: Array) -> Sequence[OriginalLayer]:
        """Return what every operator computes of one image (1, S, S, 3); named by its weights where it has some."""
        import torch

        found: list[OriginalLayer] = []
        names: dict[Any, str] = {}

        class Recorder(torch.fx.Interpreter):  # type: ignore[misc]
            def run_node(self, node: Any) -> Any:
                value = super().run_node(node)
                if node.op == "call_function" and torch.is_tensor(value):
                    names[node] = _name(node)
                    read = tuple(names[one] for one in node.all_input_nodes if one in names)
                    found.append(OriginalLayer(names[node], _operator(node), read, value.numpy().copy()))
                return value

        with torch.no_grad():
            Recorder(self._program.module()).run(_tensor(image[0]))
        return found


def _loaded(copy: Path, file: Path, written: str) -> Any:
    """Load a checked archive; PyTorch writes the cause of a failure to its log only."""
    import torch

    causes: list[BaseException] = []

    class Causes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            causes.extend(one for one in (record.exc_info or ())[1:2] if isinstance(one, BaseException))

    log, handler = logging.getLogger(torch.export.__name__), Causes()
    log.addHandler(handler)
    try:
        return torch.export.load(str(copy))
    except Exception as error:
        reason = message_of(causes[0] if causes else error)
        raise UsageError(
            f"{file}: PyTorch {written} wrote it, and PyTorch {torch.__version__} cannot read it: {reason}",
            pt2_archive.EXPORT,
        ) from error
    finally:
        log.removeHandler(handler)


def _tensor(image: Array) -> Any:
    """Return an image (S, S, 3) as PyTorch's (1, 3, S, S)."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)[None]))


def _name(node: Any) -> str:
    """Return the path of an operator's weights, such as ``features.3.squeeze``, else the name of the operator."""
    weights = next((str(one.target) for one in node.all_input_nodes if one.op == "get_attr"), "")
    return f"{weights.rpartition('.')[0]} ({node.name})" if "." in weights else str(node.name)


def _operator(node: Any) -> str:
    return str(node.target).removeprefix("aten.").partition(".")[0]
