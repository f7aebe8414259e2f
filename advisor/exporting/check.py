"""Check a bundle: its files against SHA256SUMS, its model against the test vectors.

    python check.py   # beside this file: SHA256SUMS, bundle.json, test_vectors/
    python check.py --key PUBLIC.pem   # also the signature in SHA256SUMS.sig; needs cryptography

Needs numpy and one of ai-edge-litert, tflite-runtime, tensorflow. Exits with 0 if nothing has changed, else with 1.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent


def interpreter_class() -> Any:
    """Return the first interpreter that is installed."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        try:
            from tflite_runtime.interpreter import Interpreter
        except ImportError:
            from tensorflow.lite.python.interpreter import Interpreter
    return Interpreter


def wrong_files() -> list[str]:
    """Return the files of SHA256SUMS that are missing or changed."""
    wrong = []
    for line in (HERE / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        expected, _, name = line.partition("  ")
        path = HERE / name
        if not path.is_file():
            wrong.append(f"{name} is missing")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != expected:
            wrong.append(f"{name} was changed")
    return wrong


def wrong_signature(key: Path) -> str:
    """Return why SHA256SUMS is not proved to be signed with the private key of a public one; empty if it is."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError:
        return "the signature cannot be checked: cryptography is not installed (pip install cryptography)"
    try:
        public: Any = load_pem_public_key(key.read_bytes())
        public.verify((HERE / "SHA256SUMS.sig").read_bytes(), (HERE / "SHA256SUMS").read_bytes())
    except InvalidSignature:
        return f"SHA256SUMS is not signed with the key of {key}"
    except OSError as error:
        return f"the signature cannot be checked: {error.filename}: {error.strerror}"
    except (ValueError, TypeError, AttributeError):
        return f"the signature cannot be checked: {key} is not a public Ed25519 key in PEM"
    return ""


def load_model(bundle: dict[str, Any]) -> Any:
    """Return the interpreter, with its tensors allocated."""
    threads = bundle["run_with"]["threads"]
    interpreter = interpreter_class()(model_path=str(HERE / bundle["model"]), num_threads=threads)
    interpreter.allocate_tensors()
    return interpreter


def outputs(interpreter: Any, pixels: Any, mean: float, std: float) -> list[Any]:
    """Return the outputs of a model with allocated tensors for an image, uint8 (size, size, 3)."""
    image = (pixels[None].astype(np.float32) - np.float32(mean)) / np.float32(std)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    return [interpreter.get_tensor(each["index"])[0] for each in interpreter.get_output_details()]


def boxes_of(found: list[Any], least: float) -> list[dict[str, Any]]:
    """Return the boxes of a detector's outputs from a score on: top, left, bottom and right in shares of the image."""
    boxes, labels, scores, count = found
    return [
        {"label": int(labels[place]), "score": float(scores[place]), "box": boxes[place].tolist()}
        for place in range(int(count))
        if scores[place] >= least
    ]


def other_probabilities(found: list[Any], row: dict[str, Any], tolerance: float) -> str:
    """Return how the probabilities differ from those of a test vector; empty if they do not."""
    (answer,) = found
    difference = float(np.abs(answer - np.array(row["probabilities"], np.float32)).max())
    behind = float(answer.max() - answer[row["label"]])  # another label may be first by less than the tolerance
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
    return f"a score of label {place[2]} in row {place[0]}, column {place[1]} is off by {differences[place]:.4f}"


def other_mask(found: list[Any], row: dict[str, Any], tolerance: float) -> str:
    """Return in how many pixels the highest score is another class; empty if in no more than the tolerance allows.

    The mask of a test vector is written as pairs of a class and how many pixels in a row have it.
    """
    labels, counts = np.array(row["mask"], np.int64).reshape(-1, 2).T
    share = float(np.mean(found[0].argmax(axis=-1).reshape(-1) != np.repeat(labels, counts)))
    return f"{100 * share:.2f} % of the pixels have another class" if share > tolerance else ""


def other_boxes(found: list[Any], row: dict[str, Any], tolerance: float) -> str:
    """Return how the boxes differ; empty if they do not. One that is hardly above the least score may be missing."""
    seen, expected = boxes_of(found, row["least"] - tolerance), row["boxes"]
    for what, boxes, others in (("no box", expected, seen), ("an unexpected box", seen, expected)):
        for one in boxes:
            matches = [other for other in others if _alike(one, other, tolerance)]
            if not matches and one["score"] > row["least"] + tolerance:
                edges = ", ".join(f"{edge:.3f}" for edge in one["box"])
                return f"{what} of label {one['label']} with score {one['score']:.3f} at {edges}"
    return ""


def _alike(one: dict[str, Any], other: dict[str, Any], tolerance: float) -> bool:
    differences = np.subtract([one["score"], *one["box"]], [other["score"], *other["box"]])
    return one["label"] == other["label"] and bool(np.abs(differences).max() <= tolerance)


def wrong_answers(interpreter: Any) -> list[str]:
    """Return the test vectors with another answer than when the bundle was made."""
    expected = json.loads((HERE / "test_vectors" / "vectors.json").read_text(encoding="utf-8"))
    wrong = []
    for row in expected["vectors"]:
        pixels = np.fromfile(HERE / "test_vectors" / row["input"], np.uint8)
        image = pixels.reshape(expected["size"], expected["size"], 3)
        found = outputs(interpreter, image, expected["mean"], expected["std"])
        kinds = {"boxes": other_boxes, "mask": other_mask, "scores": other_scores, "probabilities": other_probabilities}
        difference = next(kinds[name] for name in kinds if name in row)(found, row, expected["tolerance"])
        if difference:
            wrong.append(f"{row['input']}: {difference}")
    return wrong


def main() -> int:
    """Check the bundle and print what is wrong."""
    parser = argparse.ArgumentParser(description="Check a bundle: its files, and the answers of its model.")
    parser.add_argument("--key", type=Path, help="public Ed25519 key in PEM: also check who signed the bundle")
    key = parser.parse_args().key
    wrong = [text for text in (wrong_signature(key) if key else "", *wrong_files()) if text]
    if not wrong:
        bundle = json.loads((HERE / "bundle.json").read_text(encoding="utf-8"))
        try:
            wrong = wrong_answers(load_model(bundle))
        except Exception as error:
            wrong = [f"the model cannot be run: {type(error).__name__}: {error}"]
    for text in wrong:
        print(f"WRONG: {text}")
    if not wrong:
        signed = "it is signed with this key, " if key else ""
        print(f"ok: {signed}no file has changed, and the model gives the expected answer to every test vector")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
