"""Public networks as ``.onnx`` and ``.pt2`` files become cards: seconds, agreement with the original, transposes.

    python -m benchmarks model_import [--torch PYTHON] [--networks mobilenet_v2,resnet18]

PYTHON is that of an environment with torch, torchvision, timm and onnxscript, which writes the files; by default this
one. It is not needed once they are in the cache. ``.pt2`` files are converted if this environment has PyTorch.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from advisor.catalog._user_models.formats import Format, format_of
from advisor.catalog._user_models.import_model import ModelDescription, add, inspect
from advisor.core import UsageError
from advisor.store import cache_root
from advisor.tflite import read
from benchmarks import model_import_networks
from benchmarks.tables import Row, keep, kept_of_others

SECONDS, DIFFERENCE = 60, 1e-4
HEADER = (
    "file", "converter", "seconds", "top-1 agreement on 32 images %", "largest difference of the largest score",
    "transposes by the converter", "transposes left", "operators", "features", "MB",
)  # fmt: skip


def main() -> None:
    """Import every file and keep the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks model_import")
    parser.add_argument("--torch", default=sys.executable, help="Python that has torch, torchvision and timm")
    parser.add_argument("--networks", default=",".join(model_import_networks.NAMES))
    chosen = parser.parse_args()
    files = _files(chosen.torch, chosen.networks.split(","))
    rows, remarks = kept_of_others("model_import", [file.name for file in files])
    rows += [_row(file) for file in files]
    done = [row for row in rows if row[3] != ""]
    good = [row for row in done if float(str(row[3])) == 100 and float(str(row[4])) <= DIFFERENCE]
    slow = [str(row[0]) for row in done if float(str(row[2])) > SECONDS]
    remarks = [
        f"{len(good)} of {len(rows)} files converted with the same class on top for every image and a difference of at "
        f"most {DIFFERENCE:g}; attention keeps its transposes",
        f"over {SECONDS} s: {', '.join(slow) or 'none'}",
        "random weights; batch normalisation has the statistics of noise",
        "seconds: all of catalog add, with the packages of the converter in the cache",
    ]
    print(keep("model_import", "Models of other frameworks", HEADER, rows, remarks))


def _files(python: str, names: list[str]) -> list[Path]:
    """Return the files of the networks; write those that the cache lacks."""
    folder = cache_root() / "benchmarks" / "model_import"
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}{suffix}" for name in names for suffix in (".onnx", ".pt2")]
    if not all(file.is_file() for file in files):
        subprocess.run([python, model_import_networks.__file__, str(folder), *names], check=True)
    return files


def _row(file: Path) -> Row:
    raw = _raw_transposes(file, format_of(file))
    given = ModelDescription(
        name=file.name.replace(".", "_"), labels="imagenet", mean=(123.7, 116.3, 103.5), std=(58.4, 57.1, 57.4)
    )
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        try:
            with inspect(file) as inspected:
                added = add(inspected, given, Path(folder) / "catalog.yaml")
        except UsageError as error:
            return (file.name, error.message.replace(str(file), file.name), *("",) * 8)
        seconds = time.monotonic() - started
        conversion, operators = added.card.conversion, len(read(added.model).operators)
        size = added.model.stat().st_size / 1e6
    assert conversion is not None, "both formats have an original"
    return (
        file.name, conversion.converter, f"{seconds:.1f}", f"{100 * conversion.agreement:g}",
        f"{conversion.difference:.1e}", raw, conversion.transposes, operators, added.features or "none", f"{size:.1f}",
    )  # fmt: skip


def _raw_transposes(file: Path, form: Format) -> object:
    """Return the number of transposes before our own edits, empty if the file cannot be converted."""
    if form.packages:
        sys.path.append(form.packages.import_path().split(os.pathsep)[0])
    try:
        return read(form.convert(file, None)).transposes
    except Exception:  # the import itself says why
        return ""
