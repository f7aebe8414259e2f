"""Run the test vectors of a fleet's files on this device, and print one JSON document.

Lies beside ``tiers.json``, the files and ``selector.py``. Needs numpy and one of ai-edge-litert, tflite-runtime,
tensorflow.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


def main() -> None:
    """Print whether each file gives the expected values."""
    import numpy as np
    from selector import TierSelector  # type: ignore[import-not-found]

    tiers = json.loads((HERE / "tiers.json").read_text(encoding="utf-8"))
    selector, passed = TierSelector(tiers, {}), []
    for tier, facts in enumerate(tiers["tiers"]):
        interpreter = interpreter_class()(model_path=str(HERE / facts["file"]), num_threads=tiers["threads"])
        interpreter.allocate_tensors()
        (given,), first = interpreter.get_input_details(), interpreter.get_output_details()[0]

        def run(
            _: int, values: list[float], interpreter: Any = interpreter, given: Any = given, first: Any = first
        ) -> Any:
            interpreter.set_tensor(given["index"], np.array(values, np.float32).reshape(given["shape"]))
            interpreter.invoke()
            return interpreter.get_tensor(first["index"]).ravel().tolist()

        passed.append(selector.passes(tier, run))
    print(json.dumps({"passed": passed}))


if __name__ == "__main__":
    main()
