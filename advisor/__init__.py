"""Choose, retrain and compress the image model to ship on phones and small devices.

::

    import advisor
    run = advisor.search(budget="50ms", data="photos")
    print(run.decision.reason, run.report)
"""

from typing import TYPE_CHECKING

from advisor.version import __version__

__all__ = [
    "AdvisorError",
    "Check",
    "Report",
    "Run",
    "Update",
    "UsageError",
    "__version__",
    "benchmark",
    "benchmark_device",
    "cache",
    "card_front",
    "catalog",
    "check_data",
    "check_run",
    "clean_cache",
    "compare",
    "compress",
    "devices",
    "diagnose",
    "doctor",
    "export",
    "exportable",
    "judge_tiles",
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
    "update",
    "verify",
]

if TYPE_CHECKING:
    from advisor import catalog, devices
    from advisor.api import (
        Check,
        Report,
        Run,
        Update,
        benchmark,
        benchmark_device,
        cache,
        card_front,
        check_data,
        check_run,
        clean_cache,
        compare,
        compress,
        diagnose,
        doctor,
        export,
        exportable,
        judge_tiles,
        keep_run,
        list_runs,
        log_to,
        plan,
        predict,
        profile,
        reevaluate,
        reevaluate_fleet,
        report,
        search,
        update,
        verify,
    )
    from advisor.core import AdvisorError, UsageError
else:
    # Importing the package stays cheap: a name is imported when it is first used (PEP 562).
    def __getattr__(name: str) -> object:
        from importlib import import_module
        from inspect import isfunction

        if name in ("catalog", "devices"):
            return import_module(f"advisor.{name}")
        if name in ("AdvisorError", "UsageError"):
            return getattr(import_module("advisor.core._errors"), name)
        if name in __all__:
            member = getattr(import_module("advisor.api"), name)
            if isfunction(member):
                # Commands call ``advisor.api``, whose errors name options.
                member = import_module("advisor._python").speak_python(member)
            globals()[name] = member
            return member
        raise AttributeError(f"module 'advisor' has no attribute '{name}'")

    def __dir__() -> list[str]:
        return __all__
