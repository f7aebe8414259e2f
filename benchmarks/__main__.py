"""``python -m benchmarks [NAME ...]``: run all benchmarks, or those named."""

from __future__ import annotations

import importlib
import sys

NAMES = ("search", "search_overhead", "sampler_timm_pool", "latency_prediction", "measurement", "catalogue")


def main() -> int:
    """Run the benchmarks one after the other and return 0, or 2 for an unknown name."""
    chosen = sys.argv[1:] or NAMES
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        print(f"error: unknown benchmark {', '.join(unknown)}; there are: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    sys.argv[1:] = []
    for name in chosen:
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
    return 0


sys.exit(main())
