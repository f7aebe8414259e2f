"""The public functions: one for each command, and a few that a command uses on the way.

``import advisor`` offers most of them. Read ``_runs.py`` first (a search and its plan), then
``_answers.py`` (reports, exports, comparisons), ``_models.py`` (single files), ``_updates.py`` (a
model that grows), ``_fleets.py`` (one app on many phones), ``_doctor.py`` and ``_caches.py``.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.api._answers import (
        Report,
        check_run,
        compare,
        experiment_log,
        export,
        exportable,
        judge_tiles,
        list_runs,
        log_to,
        predict,
        reevaluate,
        report,
    )
    from advisor.api._caches import cache, clean_cache, keep_run
    from advisor.api._doctor import Check, State, doctor
    from advisor.api._fleets import reevaluate_fleet, verify
    from advisor.api._models import (
        benchmark,
        benchmark_device,
        card_front,
        check_data,
        compress,
        diagnose,
        judge,
        list_accelerators,
        profile,
        warn_of_input,
    )
    from advisor.api._options import write_request
    from advisor.api._runs import Run, demonstrate, memory_there, plan, search
    from advisor.api._updates import Update, update
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "Check",
    "Report",
    "Run",
    "State",
    "Update",
    "benchmark",
    "benchmark_device",
    "cache",
    "card_front",
    "check_data",
    "check_run",
    "clean_cache",
    "compare",
    "compress",
    "demonstrate",
    "diagnose",
    "doctor",
    "experiment_log",
    "export",
    "exportable",
    "judge",
    "judge_tiles",
    "keep_run",
    "list_accelerators",
    "list_runs",
    "log_to",
    "memory_there",
    "plan",
    "predict",
    "profile",
    "reevaluate",
    "reevaluate_fleet",
    "report",
    "search",
    "update",
    "verify",
    "warn_of_input",
    "write_request",
]
