"""Run native code in child processes, so that a crash,
a hang or too much memory fails one evaluation only.

Read ``_process.py`` first (the only place that starts programs), then ``_worker.py`` and
``_pool.py`` (calls with limits). ``agent`` is a program: it times files, here or on a device. What
its file defines is used by its name, such as ``agent.Effort``.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.isolation import agent
    from advisor.isolation._agent_documents import (
        AgentJson,
        Block,
        LoadReading,
        SeriesDocument,
        SustainedDocument,
    )
    from advisor.isolation._cores import (
        GPU_DRIVER,
        WAITED_LIMIT,
        compute_waited_share,
        measure_slowdown,
        part_of_a_core,
        read_quota_cores,
        usable_cores,
        waiting_factor,
    )
    from advisor.isolation._memory import MemoryGate, free_bytes
    from advisor.isolation._pause import Pause
    from advisor.isolation._pool import (
        ChildPool,
        Children,
        PoolKind,
        Trainers,
    )
    from advisor.isolation._process import (
        ENDS_WITH_PARENT,
        IN_CHILD,
        UNWANTED,
        ChildProcess,
        Finished,
        TimedOut,
        run_program,
    )
    from advisor.isolation._scratch import Scratch, no_follow, sweep_folders
    from advisor.isolation._standard_error import redirect_errors
    from advisor.isolation._worker import CallLimits
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "ENDS_WITH_PARENT",
    "GPU_DRIVER",
    "IN_CHILD",
    "UNWANTED",
    "WAITED_LIMIT",
    "AgentJson",
    "Block",
    "CallLimits",
    "ChildPool",
    "ChildProcess",
    "Children",
    "Finished",
    "LoadReading",
    "MemoryGate",
    "Pause",
    "PoolKind",
    "Scratch",
    "SeriesDocument",
    "SustainedDocument",
    "TimedOut",
    "Trainers",
    "agent",
    "compute_waited_share",
    "free_bytes",
    "measure_slowdown",
    "no_follow",
    "part_of_a_core",
    "read_quota_cores",
    "redirect_errors",
    "run_program",
    "sweep_folders",
    "usable_cores",
    "waiting_factor",
]
