"""Run every check: ``python -m tools.checks`` prints each problem, and ends with 1 for any.

``make lint`` calls it. A new check is a module with a function ``problems``, and its name here.
"""

import gc
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor

from tools.checks import (
    exit_codes,
    generated_files,
    house,
    pages,
    profile_rows,
    references,
    structure,
)

PARTS = (structure, generated_files, exit_codes, house, pages, profile_rows, references)
"""The longest come first: each runs in a process of its own,
as many at once as there are processors.
"""


def main() -> int:
    """Return 1 if a check found a problem, else 0."""
    with ProcessPoolExecutor(initializer=gc.disable) as pool:
        jobs = [pool.submit(_list_problems, part.problems) for part in PARTS]
        problems = [problem for job in jobs for problem in job.result()]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"checks: {len(problems)} problem(s)" if problems else "checks: no problems")
    return int(bool(problems))


def _list_problems(find_problems: Callable[[], Iterable[str]]) -> list[str]:
    """Return all problems: what yields them cannot be sent from one process to another."""
    return list(find_problems())


if __name__ == "__main__":
    raise SystemExit(main())
