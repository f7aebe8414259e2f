"""The public functions: one for each command, and a few that a command uses on the way."""

from advisor.api.answers import (
    Report,
    check_run,
    compare,
    export,
    exportable,
    list_runs,
    log_to,
    predict,
    reevaluate,
    reevaluate_fleet,
    report,
    verify,
)
from advisor.api.caches import cache, clean_cache, keep_run
from advisor.api.models import benchmark, benchmark_device, card_front, check_data, compress, diagnose, profile
from advisor.api.runs import Check, Run, State, doctor, plan, search

__all__ = [
    "Check",
    "Report",
    "Run",
    "State",
    "benchmark",
    "benchmark_device",
    "cache",
    "card_front",
    "check_data",
    "check_run",
    "clean_cache",
    "compare",
    "compress",
    "diagnose",
    "doctor",
    "export",
    "exportable",
    "keep_run",
    "list_runs",
    "log_to",
    "plan",
    "predict",
    "profile",
    "reevaluate",
    "reevaluate_fleet",
    "report",
    "search",
    "verify",
]
