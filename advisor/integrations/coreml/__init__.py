"""The folder ``coreml`` of a bundle: a Core ML package of a classifier.

The entry point ``advisor.bundle_parts`` names this module; the export calls :func:`check` and
:func:`files` (``BundlePart``). The package is made from the float
``.tflite`` in a child process, which calls ``_convert.py`` by module and name. Names in the
package are used by code of apps: they stay.
"""

import importlib.util
import json
import sys
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from advisor.core import Evaluation, StageError, Status, UsageError, install_extra
from advisor.engine import LoadedRun
from advisor.isolation import CallLimits, ChildPool, Scratch
from advisor.reporting import ExportedModel, ShippedModel, Shipping, artefact_of

CONTENT = (
    "a Core ML package of the float model, in 16 bits; not run here: check it on an Apple device"
)
WITH_UNKNOWN_CLASS = False

FOLDER = "coreml/model.mlpackage"
FLOATS = ("float32", "float16")
LIMITS = CallLimits(seconds=300)
PACKAGE = "coremltools"
FRAMEWORKS = ("tensorflow", "torch", "sklearn", "xgboost", "libsvm")
_NAMES = uuid.UUID("6d0f6f9e-3f0b-5b0e-9a51-0a2f3c8f6c11")


def check(shipping: Shipping) -> None:
    """Check that a package can be made for a task; see
    ``BundlePart``.
    """
    if not shipping.coreml:
        raise UsageError(f"--coreml: there is no package that {shipping.does}", "leave it out")


def files(exported: ExportedModel) -> Mapping[str, bytes]:
    """Return the files of the package; see ``BundlePart``."""
    floats = float_form(exported.run, exported.evaluation)
    # After the run, whose faults stay on a machine with the package.
    if importlib.util.find_spec(PACKAGE) is None:
        problem = f"--coreml needs {PACKAGE}, which is not installed"
        raise UsageError(problem, install_extra("coreml"))
    more = exported.evaluation.on_all
    if floats is exported.evaluation:
        return coreml_package(ShippedModel.prepare(exported.artefact, floats.artefact), floats)
    if more is not None and more.file:
        why = (
            f"--coreml: {floats.configuration.key} has not learnt from all images, as the file of"
            " this bundle has"
        )
        raise UsageError(why, "leave --coreml out, or search again without --ship-on all")
    return coreml_package(
        ShippedModel.prepare(artefact_of(exported.run, floats), floats.artefact), floats
    )


def float_form(run: LoadedRun, evaluation: Evaluation) -> Evaluation:
    """Return the float form of a candidate: itself, or another of the run.

    Raises:
        UsageError: the run has none.
    """
    configuration = evaluation.configuration
    if configuration.compression in FLOATS:
        return evaluation
    for form in FLOATS:
        wanted = replace(configuration, compression=form)
        for candidate in run.evaluations:
            # On any target: the file is the same one.
            is_wanted = replace(candidate.configuration, target=configuration.target) == wanted
            if is_wanted and candidate.status is Status.OK and candidate.artefact:
                return candidate
    raise UsageError(
        f"--coreml: the run has no float form of {configuration.card} ({configuration.training}), "
        f"and {configuration.compression} is not translated",
        "search again with --compressions that include float32",
    )


def coreml_package(model: ShippedModel, evaluation: Evaluation) -> dict[str, bytes]:
    """Return the files of a float classifier's package;
    UsageError if an operator of it is not translated.
    """
    about = f"{evaluation.configuration.card}, {len(model.labels)} classes"
    licence = evaluation.card_facts.licence or ""
    with (
        Scratch() as scratch,
        ChildPool(scratch / "log.txt", writes_below=scratch) as pool,
    ):
        folder = scratch / "model.mlpackage"
        arguments = (model.content, model.labels, model.mean, model.std, about, licence, folder)
        try:
            pool.call(f"{__name__}._convert:write", *arguments, limits=LIMITS)
        except StageError as error:
            raise UsageError(
                f"--coreml: {error.message}", "leave it out; no other file needs it"
            ) from error
        return {f"{FOLDER}/{name}": content for name, content in _read_files(folder).items()}


def _read_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a package; the random identifiers in its manifest become fixed ones."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    manifest = json.loads(contents["Manifest.json"])
    entries = sorted(manifest["itemInfoEntries"].items(), key=lambda entry: str(entry[1]["path"]))
    fixed = {key: str(uuid.uuid5(_NAMES, entry["path"])) for key, entry in entries}
    manifest["itemInfoEntries"] = {fixed[key]: entry for key, entry in entries}
    manifest["rootModelIdentifier"] = fixed[manifest["rootModelIdentifier"]]
    return {**contents, "Manifest.json": (json.dumps(manifest, indent=1) + "\n").encode()}


def without_frameworks() -> None:
    """Import coremltools without the frameworks that it would load beside it,
    which takes half a minute.

    They look as if they were not installed:
    call it only in a child process that needs none of them.
    """
    for name in FRAMEWORKS:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
