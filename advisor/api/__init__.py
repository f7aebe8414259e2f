"""The public functions behind the commands; at home in a script and in a notebook."""

from __future__ import annotations

from advisor.api.answers import Report, compare, export, reevaluate, report
from advisor.api.images import check_data
from advisor.api.measuring import benchmark, benchmark_device, profile
from advisor.api.models import compress, diagnose
from advisor.api.runs import Run, plan, search

__all__ = [
    "Report",
    "Run",
    "benchmark",
    "benchmark_device",
    "check_data",
    "compare",
    "compress",
    "diagnose",
    "export",
    "plan",
    "profile",
    "reevaluate",
    "report",
    "search",
]
