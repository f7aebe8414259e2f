"""Walk stages in tests: with real child processes, or in this process where only the walker is tested."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from advisor.engine import Images, Machine, Materials, Pool, Question, Stage
from advisor.engine._pipeline.stage_events import StageEvent
from advisor.engine._pipeline.walker import Walker, Workers, run_coroutine
from advisor.isolation import Children
from advisor.measurement._host import describe
from advisor.store import ArtifactCache

Result = TypeVar("Result")

PLAIN: Mapping[str, Any] = {"version": "1", "doing": "working", "after": (), "inputs": lambda *_: {}}


class InThisProcess:
    """Calls functions by name in this process."""

    peak_bytes = 0

    def call(self, function: str, *args: Any, **_: Any) -> Any:
        module, _, name = function.partition(":")
        return getattr(import_module(module), name)(*args)

    def close(self) -> None:
        pass


def materials(cache: Path, images: Images | None = None, **more: Any) -> Materials:
    question = Question(thread_counts=(1,))
    return Materials(ArtifactCache(cache), images, more.pop("weights", {}), describe(), question, **more)


def walk(stage: Stage[Result], given: Materials, *more: Any, **options: Any) -> Result:
    """Run one stage and all that it comes after; see :func:`walk_all`."""
    return walk_all((stage,), given, *more, **options)[0]


def walk_all(
    stages: Sequence[Stage[Result]],
    given: Materials,
    children: Children | None = None,
    listen: Callable[[StageEvent], None] = lambda _event: None,
    remeasure: bool = False,
) -> list[Result]:
    """Run stages one after the other in one search: children that train end with the thread that started them."""
    pools: Mapping[Pool, Children] = dict.fromkeys(Pool, children or InThisProcess())

    async def run() -> list[Result]:
        walker = Walker(given, Workers(Machine(1), pools), listen, remeasure)
        return [await walker.run(stage) for stage in stages]

    return run_coroutine(run())
