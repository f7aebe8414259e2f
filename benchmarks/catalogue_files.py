"""Make the catalogue's networks with random weights, once, and write what the predictor knows of their operators.

python -m benchmarks.catalogue_files        # writes device_profiles/model_operators.csv; about 15 minutes
"""

import csv
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from advisor.catalog import Catalogue
from advisor.devices import find_shipped_profiles
from advisor.devices._kernel_files import as_int8
from advisor.devices._latency.operator_times import OPERATORS_FILE
from advisor.store import ArtifactCache
from advisor.tflite import Work, Works, count_graph_works, read

FORMS = ("float32", "int8")
STAGE = "catalogue-files-1"


def names() -> tuple[str, ...]:
    """Return the names of the catalogue's networks that have a Keras graph."""
    return tuple(name for name, card in Catalogue.load().items() if not card.by_file)


def files_of(chosen: Sequence[str]) -> dict[tuple[str, str], Path]:
    """Return the file of each network in each form; a network that is missing is converted."""
    cache = ArtifactCache()
    folders = {name: cache.get(STAGE, {"card": name}, partial(_make, name)) for name in chosen}
    return {(name, form): folder / f"{form}.tflite" for name, folder in folders.items() for form in FORMS}


def _make(name: str, folder: Path) -> None:
    from advisor.catalog import convert
    from advisor.tflite import select_output

    path = folder / "float32.tflite"
    convert(Catalogue.load()[name], None, path)
    data = select_output(path.read_bytes(), "probabilities")
    path.write_bytes(data)
    (folder / "int8.tflite").write_bytes(as_int8(data))


def write_operators(path: Path, models: Mapping[str, Works]) -> None:
    """Write the table that :func:`advisor.devices._latency.operator_times.model_operators` reads."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("model", "number", *Work.list_columns()))
        for name, works in sorted(models.items()):
            for work, number in works:
                writer.writerow((name, number, work.kind, *work.sizes))


def main() -> None:
    """Write the table of operators: of the Keras graphs, and of the graph files that have no other kind of operator.

    The others have attention, whose operators no kernel file repeats.
    """
    every = tuple(Catalogue.load())
    files = files_of(every)
    works = {name: count_graph_works(read(files[name, "float32"])) for name in every}
    kinds = {work.kind for name in names() for work, _ in works[name]}
    shipped = {name: found for name, found in works.items() if {work.kind for work, _ in found} <= kinds}
    write_operators(find_shipped_profiles() / OPERATORS_FILE, shipped)
    print(f"{len(works)} networks, {sum(map(len, works.values()))} different operators")


if __name__ == "__main__":
    main()
