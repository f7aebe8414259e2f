"""When the process of a command began."""

import os
import time
from pathlib import Path

# Of /proc/self/stat behind the name in brackets, in ticks since the start of the machine.
_START_FIELD = 19


def began_with_process() -> float:
    """Return when this process began, in seconds of the monotonic clock;
    now where the system does not say it.

    On a busy machine, Python and the imports take seconds before the first line of a command.
    """
    now = time.monotonic()
    try:
        # The name of the program may hold blanks and brackets, so only the last bracket ends it.
        fields = (
            Path("/proc/self/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()
        )
        # The system counts the start of a process on this clock,
        # which also runs while the machine sleeps.
        since_boot_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        return now - max(0.0, since_boot_s - int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return now
