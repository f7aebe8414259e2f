"""Run native code in child processes, so that a crash, a hang or too much memory fails one evaluation only.

Read ``_process.py`` first (the only place that starts programs), then ``_pool.py`` (calls with limits) and
``_resources.py`` (memory, cores, temporary folders). ``agent.py`` is a program: it times files, here or on a device.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.isolation import agent
    from advisor.isolation._agent_documents import AgentJson, Block, LoadReading, SeriesDocument, SustainedDocument
    from advisor.isolation._pool import (
        EXPECTED_BYTES,
        HEAVY,
        LIGHT,
        NETWORK,
        TRAINERS,
        WRITES_BELOW,
        CallLimits,
        ChildPool,
        Children,
        Trainers,
        map_pools,
    )
    from advisor.isolation._process import (
        ENDS_WITH_PARENT,
        IN_CHILD,
        MEMORY,
        UNWANTED,
        ChildProcess,
        Finished,
        Pause,
        TimedOut,
        run_program,
    )
    from advisor.isolation._resources import (
        GPU_DRIVER,
        WAITED_LIMIT,
        MemoryGate,
        Scratch,
        compute_waited_share,
        cpu_s_of_tree,
        memory_there,
        no_follow,
        part_of_a_core,
        read_quota_cores,
        require_memory,
        sweep_folders,
        usable_cores,
        waiting_factor,
    )
    from advisor.isolation.agent import (
        AgentError,
        Effort,
        Load,
        busy_seconds,
        count_cores,
        import_interpreter,
        input_values,
        map_efforts,
        new_interpreter,
        one_line,
        parse_numbers,
        print_document,
        resize_input,
        set_inputs,
    )
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "ENDS_WITH_PARENT",
    "EXPECTED_BYTES",
    "GPU_DRIVER",
    "HEAVY",
    "IN_CHILD",
    "LIGHT",
    "MEMORY",
    "NETWORK",
    "TRAINERS",
    "UNWANTED",
    "WAITED_LIMIT",
    "WRITES_BELOW",
    "AgentError",
    "AgentJson",
    "Block",
    "CallLimits",
    "ChildPool",
    "ChildProcess",
    "Children",
    "Effort",
    "Finished",
    "Load",
    "LoadReading",
    "MemoryGate",
    "Pause",
    "Scratch",
    "SeriesDocument",
    "SustainedDocument",
    "TimedOut",
    "Trainers",
    "agent",
    "busy_seconds",
    "compute_waited_share",
    "count_cores",
    "cpu_s_of_tree",
    "import_interpreter",
    "input_values",
    "map_efforts",
    "map_pools",
    "memory_there",
    "new_interpreter",
    "no_follow",
    "one_line",
    "parse_numbers",
    "part_of_a_core",
    "print_document",
    "read_quota_cores",
    "require_memory",
    "resize_input",
    "run_program",
    "set_inputs",
    "sweep_folders",
    "usable_cores",
    "waiting_factor",
]
