"""The exit codes of the commands: one meaning each, the same for every command."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes.

    Attributes:
        OK: the command did what it was asked for. For ``search`` and ``report``: a pick meets the budget.
        INTERNAL_ERROR: a bug in advisor, or a failed stage without which there is no result.
        USAGE: the options, the configuration, the data or the machine (``doctor``) are at fault. Nothing was spent.
        UNSATISFIED: completed only partly or without a result: nothing meets the budget, a file or a device could not
            be measured, no compressed file is accurate enough, or some weights could not be fetched. The results so
            far are kept.
        CHANGED: a recommendation changed or got worse.
        INTERRUPTED: interrupted by the user. The state is saved.
    """

    OK = 0
    INTERNAL_ERROR = 1
    USAGE = 2
    UNSATISFIED = 3
    CHANGED = 4
    INTERRUPTED = 130
