"""Run every check: ``python -m tools.checks`` prints each problem and ends with 1 if there is any."""

import sys

from tools.checks import exit_codes, generated_files, house, pages, profile_rows, structure


def main() -> int:
    """Return 1 if a check found a problem, else 0."""
    parts = (exit_codes, generated_files, house, pages, profile_rows, structure)
    problems = [problem for part in parts for problem in part.problems()]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"checks: {len(problems)} problem(s)" if problems else "checks: no problems")
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main())
