"""Make a file by each of some recipes and print the hashes as JSON: ``python -m tests.compression.recipes.making``.

Arguments: the float model, a folder of images, a folder for the files, and names of recipes. Recipes that train run in
a child process for training, as they do in a search.
"""

import json
import sys
from pathlib import Path

from advisor.compression import Needs, RecipeInputs, recipe
from advisor.datasets import CalibrationImages, InputSpec
from advisor.engine._pipeline.stages import jobs
from advisor.isolation import Trainers
from advisor.store import sha256_file
from advisor.tflite import Metadata
from advisor.training import TrainingImages

VIEW = InputSpec(32, (127.5,) * 3, (127.5,) * 3)
CLASSES = 4


def main(model: str | Path, images: str | Path, folder: str | Path, *names: str) -> dict[str, str]:
    paths = tuple(sorted(Path(images).iterdir()))
    labels = tuple(place % CLASSES for place in range(len(paths)))
    known = TrainingImages(paths, labels, CLASSES, VIEW, 0, paths, labels)
    inputs = RecipeInputs(images=known, max_drop_points=-1.0)
    metadata = Metadata("small", ("a", "b", "c", "d"), VIEW.mean, VIEW.std)
    with Trainers(Path(folder, "log.txt")) as pool:
        found = {}
        for name in names:
            path = Path(folder, f"{name}.tflite")
            arguments = (Path(model), name, CalibrationImages(paths, VIEW), metadata, path, False, inputs)
            if recipe(name).needs is Needs.TRAINING:
                pool.call(f"{jobs.__name__}:compress_model", *arguments)
            else:
                jobs.compress_model(*arguments)
            found[name] = sha256_file(path)
    return found


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
