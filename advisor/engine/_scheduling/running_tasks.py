"""End the tasks of evaluations: what runs on spare time, and what nobody waits for any more.

The search loop calls it. The scheduler knows steps and no tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, MutableMapping
from typing import Any

from advisor.core import Configuration
from advisor.engine._scheduling.scheduler import Scheduler
from advisor.engine._targets.multi_device import MultiDeviceEvaluator


async def stop_spare(
    scheduler: Scheduler,
    running: MutableMapping[asyncio.Future[Any], Configuration],
    evaluator: MultiDeviceEvaluator,
) -> set[str]:
    """Stop what runs on spare time, and remove it from what is ``running``; return its cards.

    The rule may choose it for the time of the search.
    """
    stopped = scheduler.take_spare_back(running.values())
    tasks = [task for task, configuration in running.items() if configuration in stopped]
    for task in tasks:
        del running[task]
    await cancel_tasks(tasks)
    cards = {configuration.card for configuration in stopped}
    # A stage goes on without the evaluation that asked for it.
    await evaluator.drop(cards)
    return cards


async def cancel_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
