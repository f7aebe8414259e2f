"""Run the test vectors of a fleet's files on this device, and print one JSON document.

``_verify.py`` copies this program alone to a device, so it imports nothing of advisor: it lies
beside ``tiers.json``, the files, ``selector.py`` and the ``check.py`` of bundles. Needs numpy and
one of ai-edge-litert, tflite-runtime, tensorflow.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Print whether each file gives the expected values."""
    import numpy as np
    from check import interpreter_class  # type: ignore[import-not-found]
    from selector import TierSelector  # type: ignore[import-not-found]

    tiers = json.loads((HERE / "tiers.json").read_text(encoding="utf-8"))
    selector = TierSelector(tiers, {})
    passed = []
    for tier, facts in enumerate(tiers["tiers"]):
        interpreter = interpreter_class()(
            model_path=str(HERE / facts["file"]), num_threads=tiers["threads"]
        )
        interpreter.allocate_tensors()
        (image,) = interpreter.get_input_details()
        output = interpreter.get_output_details()[0]

        # Defaults bind the values of this turn of the loop.
        def run(
            _: int,
            values: list[float],
            interpreter: Any = interpreter,
            image: Any = image,
            output: Any = output,
        ) -> Any:
            interpreter.set_tensor(
                image["index"], np.array(values, np.float32).reshape(image["shape"])
            )
            interpreter.invoke()
            return interpreter.get_tensor(output["index"]).ravel().tolist()

        passed.append(selector.passes(tier, run))
    print(json.dumps({"passed": passed}))


if __name__ == "__main__":
    main()
