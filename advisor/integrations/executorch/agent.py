"""The agent with ExecuTorch for ``.pte`` files;
it takes the arguments of :mod:`advisor.isolation.agent`.
"""

import sys
from collections.abc import Callable
from importlib import metadata

from advisor.isolation import agent


class PteModel:
    """A ``.pte`` file in ExecuTorch on the CPU. The threads are those of the process:
    one count in each.
    """

    @staticmethod
    def import_runtime() -> tuple[str, str]:
        """See :meth:`advisor.isolation.agent.TfliteModel.import_runtime`."""
        try:
            import executorch.runtime  # noqa: F401 - with PyTorch
        except ImportError as error:
            raise agent.AgentError(
                "runtime", f"executorch cannot be imported: {agent.one_line(error)}"
            ) from error
        return "executorch", metadata.version("executorch")

    def __init__(
        self,
        path: str,
        threads: int,
        kernels: str,
        shape: list[int] | None,
        content: bytes | None = None,
    ) -> None:
        from executorch.extension.pybindings import portable_lib
        from executorch.runtime import Runtime

        if kernels != "default" or shape:
            raise agent.AgentError("load", "ExecuTorch has no choice of kernels and shapes")
        self.runtime = self.import_runtime()
        # Unsafe only while a program runs, which none does while a file is loaded.
        portable_lib._unsafe_reset_threadpool(threads)
        try:
            self._program = Runtime.get().load_program(content or path)
            self._method = self._program.load_method("forward")
        except (RuntimeError, ValueError) as error:
            raise agent.AgentError(
                "load", f"ExecuTorch cannot load the file: {agent.one_line(error)}"
            ) from error

    def invoker(self) -> Callable[[], object]:
        """Make the inputs and return the function that runs the file once."""
        import torch

        facts = self._method.metadata
        method = self._method
        given = [
            torch.from_numpy(
                agent.input_values(
                    tuple(facts.input_tensor_meta(place).sizes()), "float32", str(place)
                )
            )
            for place in range(facts.num_inputs())
        ]
        return lambda: method.execute(given)


if __name__ == "__main__":
    agent.MODELS[".pte"] = PteModel
    sys.exit(agent.main())
