"""``python -m tests.engine.scheduling.study_process STORAGE OUT NAME``: evaluate a whole study with stated figures."""

import sys
from dataclasses import replace
from pathlib import Path

from advisor.catalog.catalogue import load_catalogue
from advisor.core.budget import Budget
from advisor.engine.question import resolve
from advisor.engine.scheduling.storage import check_storage, open_storage
from advisor.engine.scheduling.study import Study
from advisor.store import RunFolder
from tests.builders import RUNTIME, evaluation
from tests.engine.plans import planned

CARDS = ["mobilenet_v2_1.0_224", "efficientnet_lite0_224", "squeezenet_1.1_227"]


def main() -> None:
    storage, out, name = sys.argv[1:]
    plan = planned(load_catalogue().select(CARDS), ("float32", "int8"), (1, 2), ("head",), RUNTIME)
    check_storage(storage)
    run = RunFolder.create(Path(out), name)
    run.write_request(resolve({"storage": storage}).written)
    with open_storage(storage, run) as (kept, study_name):
        study = Study(kept, study_name, plan, Budget(latency_ms=50), "advisor", 0, done=())
        while (configuration := study.ask()) is not None:
            study.tell(replace(evaluation(), configuration=configuration))
    print(study_name)


if __name__ == "__main__":
    main()
