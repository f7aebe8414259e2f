"""The moment at which the process of a command began.

``main`` asks for it once: a time limit counts from there, and not from the end of the imports.
"""

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
        text = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
        _, _, behind_name = text.rpartition(")")
        start_ticks = int(behind_name.split()[_START_FIELD])
        # The system counts the start of a process on this clock,
        # which also runs while the machine sleeps.
        since_boot_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        started_s = start_ticks / os.sysconf("SC_CLK_TCK")
        return now - max(0.0, since_boot_s - started_s)
    except (OSError, ValueError, IndexError, AttributeError):
        return now
