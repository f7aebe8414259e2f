"""Print each figure of the structure beside its limit, or the places that one figure counts.

``python -m tools.checks.structure [FIGURE]``
"""

import sys

import yaml

from tools.checks.structure import LIMITS, ROOT, measure, problems


def main() -> int:
    """Return 1 if a figure is beyond its limit, else 0."""
    figures = measure(ROOT)
    if sys.argv[1:]:
        print("\n".join(figures[sys.argv[1]].places))
        return 0
    limits = yaml.safe_load(LIMITS.read_text(encoding="utf-8"))
    for side, values in limits.items():
        for name, limit in values.items():
            print(f"{name:44} {figures[name].value:>8g}   {side} {limit:g}")
    for problem in problems():
        print(problem)
    return int(bool(problems()))


if __name__ == "__main__":
    raise SystemExit(main())
