"""What a command's end tells: the exit codes of the contract, one meaning each, the same for every command."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes.

    Attributes:
        OK: what was asked for is there; of ``search`` and ``report``, a pick that meets the budget.
        INTERNAL_ERROR: a fault of advisor, or a stage that failed where there is nothing else to give.
        USAGE: usage, configuration, data or the machine (``doctor``) are at fault; nothing was spent.
        UNSATISFIED: completed only partly or without a result: nothing meets the budget, a file or
            a device could not be measured, no form is good enough, some weights could not be fetched. What there is
            is given.
        CHANGED: a recommendation changed or got worse.
        INTERRUPTED: ended by the user; the state is saved.
    """

    OK = 0
    INTERNAL_ERROR = 1
    USAGE = 2
    UNSATISFIED = 3
    CHANGED = 4
    INTERRUPTED = 130
