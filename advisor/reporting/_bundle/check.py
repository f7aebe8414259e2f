"""Check a bundle: its files against SHA256SUMS, its model against the test vectors.

    python check.py                                  # the bundle that this file is in
    python check.py --key PUBLIC.pem BUNDLE          # another one, and who signed it

With ``--key``, it needs the package cryptography.

BUNDLE has SHA256SUMS, bundle.json and test_vectors/. Nothing is imported from it, and a file that
SHA256SUMS does not name is wrong. A bundle can bring another check.py: take this one and the key
from a place that you trust.

Needs numpy and one of ai-edge-litert, tflite-runtime, tensorflow.
Exits with 0 if nothing has changed, else with 1.
"""

# The export copies this file alone into each bundle, so it imports nothing of advisor. The package
# imports its names, too: other modules of this folder, and `integrations/fleet`. It also checks
# bundles of earlier versions: what it reads of SHA256SUMS and vectors.json stays.

import os
import sys

if __name__ == "__main__":
    # Python looks for modules beside this file first, which may be in the bundle that is to be
    # checked, and PYTHONPATH may name the current folder. Both modules above are there since
    # Python started; pathlib is not.
    _FILES = [__file__, os.path.realpath(__file__)]
    _FOLDERS = {
        os.getcwd(),  # noqa: PTH109
        *map(os.path.dirname, _FILES),
        *map(os.path.realpath, sys.argv[1:]),
    }
    sys.path[:] = [place for place in sys.path if os.path.realpath(place) not in _FOLDERS]

import argparse
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
SUMS = "SHA256SUMS"
SIGNATURE = "SHA256SUMS.sig"
MOST_BYTES = 10_000_000  # Of the list, its signature and a key
MOST_FILE_BYTES = 4_000_000_000  # Of a file of a bundle: a model has 2 GB at most
MOST_TOLERANCE = 0.5  # Difference of a probability or score; bundles have 0.1 at most
MOST_SHOWN = 20  # Lines of what is wrong
NO_RUNTIME = "nothing here runs the model, so it is not checked: pip install ai-edge-litert"
_SIGNED_ON = re.compile(r"# signed on (\S+)")
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def interpreter_class() -> Any:
    """Return the first interpreter that is installed."""
    try:
        # The maintained runtime comes first, and TensorFlow, which takes seconds to import, last.
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        try:
            from tflite_runtime.interpreter import Interpreter
        except ImportError:
            try:
                from tensorflow.lite.python.interpreter import Interpreter
            except ImportError:
                raise SystemExit(NO_RUNTIME) from None
    return Interpreter


def wrong_files(bundle: Path) -> list[str]:
    """Return what is wrong with the files of a bundle: which are missing or changed, are not
    named by SHA256SUMS, or are links.
    """
    try:
        return _wrong_files(bundle)
    except OSError as error:
        return [f"{error.filename} cannot be read: {error.strerror}"]


def _wrong_files(bundle: Path) -> list[str]:
    # A bundle may come from anybody, so nothing is read whole before its size is known.
    if (bundle / SUMS).stat().st_size > MOST_BYTES:
        return [f"{SUMS} has more than {MOST_BYTES} bytes"]
    lines = (bundle / SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    named, wrong = _check_listed(bundle, lines)
    return [*wrong, *_find_others(bundle, named)]


def _check_listed(bundle: Path, lines: list[str]) -> tuple[set[str], list[str]]:
    """Return the files that the lines of SHA256SUMS name, and what is wrong with these."""
    named = {SUMS, SIGNATURE}
    wrong = []
    for line in lines:
        # The date of a signature. The program sha256sum skips comments, too.
        if line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        # A line must not lead out of the bundle: the check would read other files of this machine.
        name = PurePosixPath(match[2]) if match else PurePosixPath("/")
        if match is None or name.is_absolute() or ".." in name.parts:
            wrong.append(f"SHA256SUMS has the line '{line[:200]}'")
            continue
        named.add(str(name))
        path = bundle / name
        if not path.is_file():
            wrong.append(f"{name} is missing")
        # A sparse file in a bundle of somebody else could take hours to hash,
        # and no model is so large.
        elif path.stat().st_size > MOST_FILE_BYTES:
            wrong.append(f"{name} has more than {MOST_FILE_BYTES} bytes")
        elif sha256_of(path) != match[1]:
            wrong.append(f"{name} was changed")
    return named, wrong


def _find_others(bundle: Path, named: set[str]) -> list[str]:
    """Return the links, files and empty folders that SHA256SUMS does not name."""
    folders: set[str] = set()
    for name in named:
        folders.update(map(str, PurePosixPath(name).parents))
    wrong = []
    for path in entries_in(bundle):
        name = path.relative_to(bundle).as_posix()
        if path.is_symlink():
            wrong.append(f"{name} is a link")
        elif path.is_dir():
            # Of the others, each file is named.
            if name not in folders and not any(path.iterdir()):
                wrong.append(f"{name} is not a folder of the bundle: remove it")
        elif name not in named:
            wrong.append(f"{name} is not a file of the bundle: remove it")
    return wrong


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, which may be larger than the memory."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(MOST_BYTES):
            digest.update(block)
    return digest.hexdigest()


def entries_in(folder: Path) -> Iterator[Path]:
    """Yield all that is below a folder; links are not followed."""
    folders = [folder]  # and no recursion, as a path can have thousands of parts
    while folders:
        for path in sorted(folders.pop().iterdir()):
            if path.is_dir() and not path.is_symlink():
                folders.append(path)
            yield path


def shown(text: str) -> str:
    """Return a text that a terminal can show: names of files may have control characters, or
    be no UTF-8.
    """
    readable = ""
    for character in text:
        if character.isprintable():
            readable += character
        else:
            readable += character.encode("unicode_escape").decode("ascii")
    return readable


def named_file(bundle: Path, name: Any) -> Path:
    """Return a file that a document of the bundle names;
    ValueError if it is not one of the bundle's.
    """
    path = PurePosixPath(str(name))
    if path.is_absolute() or ".." in path.parts or not (bundle / path).is_file():
        raise ValueError(f"the bundle has no file '{path}'")
    return bundle / path


def signed_on(bundle: Path) -> str:
    """Return the date and time in UTC at which a bundle was signed;
    empty if SHA256SUMS does not say it.
    """
    with (bundle / SUMS).open(encoding="utf-8", errors="replace") as file:
        match = _SIGNED_ON.fullmatch(file.readline().strip())
    return match[1] if match else ""


def wrong_signature(bundle: Path, key: Path) -> str:
    """Return why SHA256SUMS is not proved to be signed with the private key of a public one;
    empty if it is.
    """
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError:
        return (
            "the signature cannot be checked: cryptography is not installed (pip install"
            " cryptography)"
        )
    # A pipe or a device would be read for ever.
    for path in (key, bundle / SIGNATURE, bundle / SUMS):
        linked = path.is_symlink() and path != key
        if path.exists() and (linked or not path.is_file() or path.stat().st_size > MOST_BYTES):
            return f"{path.name} is a link, no file, or has more than {MOST_BYTES} bytes"
    try:
        public: Any = load_pem_public_key(key.read_bytes())
        public.verify((bundle / SIGNATURE).read_bytes(), (bundle / SUMS).read_bytes())
    except InvalidSignature:
        return f"SHA256SUMS is not signed with the key of {key}"
    except OSError as error:
        return f"the signature cannot be checked: {error.filename}: {error.strerror}"
    # Keys of other kinds have no verify, or one that takes other arguments.
    except (ValueError, TypeError, AttributeError):
        return f"the signature cannot be checked: {key} is not a public Ed25519 key in PEM"
    return ""


def load_model(bundle: Path) -> Any:
    """Return the interpreter of the model of a bundle, with its tensors allocated."""
    document = json.loads((bundle / "bundle.json").read_text(encoding="utf-8"))
    threads = document["run_with"]["threads"]
    interpreter = interpreter_class()(
        model_path=str(named_file(bundle, document["model"])), num_threads=threads
    )
    interpreter.allocate_tensors()
    return interpreter


def outputs(interpreter: Any, pixels: Any, mean: float, std: float) -> list[Any]:
    """Return the outputs of a model with allocated tensors for an image, uint8 (size, size, 3)."""
    image = (pixels[None].astype(np.float32) - np.float32(mean)) / np.float32(std)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    return [
        interpreter.get_tensor(output["index"])[0] for output in interpreter.get_output_details()
    ]


def boxes_of(found: list[Any], least: float) -> list[dict[str, Any]]:
    """Return the boxes of a detector's outputs from a score on:
    top, left, bottom and right in shares of the image.
    """
    edges, labels, scores, count = found
    boxes = []
    for place in range(int(count)):
        if scores[place] >= least:
            box = edges[place].tolist()
            boxes.append({"label": int(labels[place]), "score": float(scores[place]), "box": box})
    return boxes


def other_probabilities(found: list[Any], row: dict[str, Any], tolerance: float) -> str:
    """Return how the probabilities differ from those of a test vector; empty if they do not."""
    (answer,) = found
    difference = float(np.abs(answer - np.array(row["probabilities"], np.float32)).max())
    # Another label may be first by less than the tolerance.
    behind = float(answer.max() - answer[row["label"]])
    if max(difference, behind) <= tolerance:
        return ""
    return f"label {np.argmax(answer)} instead of {row['label']}, off by {difference:.4f}"


def other_scores(found: list[Any], row: dict[str, Any], tolerance: float) -> str:
    """Return how the scores of a map differ from those of a test vector; empty if they do not."""
    answer = found[0]
    differences = np.abs(answer - np.array(row["scores"], np.float32).reshape(answer.shape))
    place = np.unravel_index(differences.argmax(), differences.shape)
    if differences[place] <= tolerance:
        return ""
    return (
        f"a score of label {place[2]} in row {place[0]}, column {place[1]} is off by"
        f" {differences[place]:.4f}"
    )


def other_mask(found: list[Any], row: dict[str, Any], tolerance: float) -> str:
    """Return in how many pixels the highest score is another class;
    empty if in no more than the tolerance allows.

    The mask of a test vector is written as pairs of a class and how many pixels in a row have it.
    """
    labels, counts = np.array(row["mask"], np.int64).reshape(-1, 2).T
    share = float(np.mean(found[0].argmax(axis=-1).reshape(-1) != np.repeat(labels, counts)))
    return f"{100 * share:.2f} % of the pixels have another class" if share > tolerance else ""


def other_boxes(found: list[Any], row: dict[str, Any], tolerance: float) -> str:
    """Return how the boxes differ; empty if they do not.
    One that is hardly above the least score may be missing.
    """
    seen = boxes_of(found, row["least"] - tolerance)
    expected = row["boxes"]
    for what, boxes, others in (("no box", expected, seen), ("an unexpected box", seen, expected)):
        for box in boxes:
            has_match = any(_is_alike(box, other, tolerance) for other in others)
            if not has_match and box["score"] > row["least"] + tolerance:
                edges = ", ".join(f"{edge:.3f}" for edge in box["box"])
                return f"{what} of label {box['label']} with score {box['score']:.3f} at {edges}"
    return ""


def _is_alike(box: dict[str, Any], other: dict[str, Any], tolerance: float) -> bool:
    differences = np.subtract([box["score"], *box["box"]], [other["score"], *other["box"]])
    return box["label"] == other["label"] and bool(np.abs(differences).max() <= tolerance)


def expected_answers(bundle: Path) -> Any:
    """Return the test vectors of a bundle, and how far answers may be from them."""
    return json.loads((bundle / "test_vectors" / "vectors.json").read_text(encoding="utf-8"))


def wrong_answers(bundle: Path, interpreter: Any) -> list[str]:
    """Return the test vectors with another answer than when the bundle was made."""
    expected = expected_answers(bundle)
    tolerance = float(expected["tolerance"])
    if not 0 <= tolerance <= MOST_TOLERANCE:
        return [f"vectors.json has the tolerance {tolerance}, which nearly every model meets"]
    wrong = []
    for row in expected["vectors"]:
        pixels = np.fromfile(named_file(bundle / "test_vectors", row["input"]), np.uint8)
        image = pixels.reshape(expected["size"], expected["size"], 3)
        answers = outputs(interpreter, image, expected["mean"], expected["std"])
        comparisons = {
            "boxes": other_boxes,
            "mask": other_mask,
            "scores": other_scores,
            "probabilities": other_probabilities,
        }
        # A vector has one of these entries: that of its task.
        kind = next(name for name in comparisons if name in row)
        difference = comparisons[kind](answers, row, tolerance)
        if difference:
            wrong.append(f"{row['input']}: {difference}")
    return wrong


def main() -> int:
    """Check the bundle and print what is wrong."""
    parser = argparse.ArgumentParser(
        description="Check a bundle: its files, and the answers of its model."
    )
    parser.add_argument(
        "--key", type=Path, help="public Ed25519 key in PEM: also check who signed the bundle"
    )
    parser.add_argument(
        "bundle", type=Path, nargs="?", default=HERE, help="folder; default: the one of this file"
    )
    options = parser.parse_args()
    bundle: Path = options.bundle
    if not (bundle / SUMS).is_file():
        print(f"WRONG: {shown(str(bundle))} is no bundle: it has no {SUMS}")
        return 1
    wrong = wrong_files(bundle)
    if options.key:
        fault = wrong_signature(bundle, options.key)
        wrong = [fault, *wrong] if fault else wrong
    # Files that have changed are not run:
    # the runtime is native code, and a hostile model could use a fault in it.
    if not wrong:
        try:
            wrong = wrong_answers(bundle, load_model(bundle))
        except Exception as error:
            wrong = [f"the model cannot be run: {type(error).__name__}: {error}"]
    for text in wrong[:MOST_SHOWN]:
        print(f"WRONG: {shown(text)}")
    if len(wrong) > MOST_SHOWN:
        print(f"WRONG: and {len(wrong) - MOST_SHOWN} more")
    if not wrong:
        signed = f"it is signed with this key {_say_when(bundle)}, " if options.key else ""
        answers = "the model gives the expected answer to every test vector"
        if not expected_answers(bundle)["vectors"]:
            answers = "there is no test vector to try the model with"
        print(f"ok: {signed}no file has changed, and {answers}")
    return 1 if wrong else 0


def _say_when(bundle: Path) -> str:
    """Return in words when a bundle was signed."""
    date = signed_on(bundle)
    if date:
        return f"on {date}"
    return "by a version before 0.2.0, which stated no date and let files be added"


if __name__ == "__main__":
    sys.exit(main())
