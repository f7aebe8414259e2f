"""Run a command as a new process does: what the process that it is a fork of has in memory is forgotten."""

import runpy
import sys

if __name__ == "__main__":
    for name in [name for name in sys.modules if name.startswith("advisor")]:
        for value in list(vars(sys.modules[name]).values()):
            if callable(forget := getattr(value, "cache_clear", None)):
                forget()
    runpy.run_module("advisor", run_name="__main__", alter_sys=True)
