"""Check an untrusted ``.keras`` archive before Keras opens it, then convert it to a float ``.tflite``."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from advisor.core.errors import UsageError, message_of
from advisor.store.files import UNREADABLE_ZIP

MAX_CONFIG_BYTES = 64 * 2**20
MAX_UNPACKED_BYTES = 4 * 2**30

CONFIG = "config.json"
_HOLDS = frozenset({CONFIG, "metadata.json", "model.weights.h5"})
# Layers that carry code, or load another file whose code they run.
_CODE = frozenset({"Lambda", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer"})
_OWN_CLASSES = "keras"
_DAMAGED = "save the model again: model.save('NAME.keras')"
_SAVE_AGAIN = "build the model of plain Keras layers, load its weights into that, and save it again"


def converter(file: Path, size: int | None) -> Any:
    """Return the TFLite converter of a checked model, its input fixed at one image; Keras loads it in ``safe_mode``.

    Raises:
        UsageError: it is not one image in and scores out.
    """
    import keras
    import tensorflow as tf

    model = keras.saving.load_model(file, compile=False, safe_mode=True)
    image = keras.Input(_shape(model, size, file), batch_size=1, name="image")
    return tf.lite.TFLiteConverter.from_keras_model(keras.Model(image, model(image)))


def check(file: Path) -> None:
    """Check the archive without Keras.

    Raises:
        UsageError: not such an archive, members that it does not have, sizes without end, or layers that carry code.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            _check_members(file, archive.infolist())
            config = json.loads(archive.read(CONFIG))
    except (*UNREADABLE_ZIP, KeyError, ValueError) as error:  # no such member; a configuration that is no JSON
        raise UsageError(f"{file} is not a usable .keras file: {message_of(error)}", _DAMAGED) from error
    for entry in _objects(config):
        _check_object(file, entry)


def _check_members(file: Path, members: list[zipfile.ZipInfo]) -> None:
    for member in members:
        if member.filename.rstrip("/") not in _HOLDS and not member.filename.startswith("assets/"):
            raise UsageError(f"{file}: the archive holds '{member.filename}', which no .keras file does", _DAMAGED)
        if ".." in Path(member.filename).parts:
            raise UsageError(f"{file}: the member path '{member.filename}' leaves the archive", _DAMAGED)
    if sum(member.file_size for member in members) > MAX_UNPACKED_BYTES:
        raise UsageError(f"{file}: it unpacks to more than {MAX_UNPACKED_BYTES} bytes", _DAMAGED)
    if any(member.filename == CONFIG and member.file_size > MAX_CONFIG_BYTES for member in members):
        raise UsageError(f"{file}: its {CONFIG} has more than {MAX_CONFIG_BYTES} bytes", _DAMAGED)


def _objects(config: Any) -> Iterator[dict[str, Any]]:
    """Yield every serialized object, however deep: the stack is ours, so that nesting cannot exhaust Python's."""
    left = [config]
    while left:
        here = left.pop()
        if isinstance(here, dict):
            left += here.values()
            if "class_name" in here:
                yield here
        elif isinstance(here, list):
            left += here


def _check_object(file: Path, entry: dict[str, Any]) -> None:
    name, module = str(entry["class_name"]), entry.get("module")
    if name in _CODE or name == "__lambda__":
        raise UsageError(
            f"{file}: the layer '{_layer_name(entry)}' is a {name}, which carries code of its own: it is not run "
            "(Keras' safe_mode)",
            _SAVE_AGAIN,
        )
    registered = entry.get("registered_name")
    own = module is not None and str(module).partition(".")[0] in (_OWN_CLASSES, "builtins")
    if not own and (registered or module is not None):
        raise UsageError(
            f"{file}: '{name}' comes from {module or registered}, not from Keras: its code is not run",
            _SAVE_AGAIN,
        )


def _layer_name(entry: dict[str, Any]) -> str:
    config = entry.get("config")
    return str(config.get("name", "")) if isinstance(config, dict) else ""


def _shape(model: Any, size: int | None, file: Path) -> tuple[int, int, int]:
    inputs = getattr(model, "inputs", None) or []
    if len(inputs) != 1:
        raise UsageError(f"{file}: it has {len(inputs)} inputs", "an image classifier has one input")
    return fixed_side(tuple(inputs[0].shape), size, str(file))


def fixed_side(shape: tuple[int | None, ...], size: int | None, name: str) -> tuple[int, int, int]:
    """Return the (S, S, 3) of an input (batch, height, width, channels), ``size`` where it is open.

    Raises:
        UsageError: not a square RGB image, an open size that was not given, or one given that does not fit.
    """
    if len(shape) != 4 or shape[3] not in (3, None):
        raise UsageError(f"{name}: its input {shape} is not one RGB image", "its shape is (batch, height, width, 3)")
    sides = {side for side in (*shape[1:3], size) if side is not None}
    if not sides:
        raise UsageError(f"{name}: its input {shape} leaves the size open", "give it with --input-size, such as 224")
    if len(sides) > 1:
        raise UsageError(
            f"{name}: its input {shape} and a size of {size or max(sides)} are not one square",
            "give its side with --input-size",
        )
    (side,) = sides
    return side, side, 3
