"""``python -m benchmarks [NAME ...]`` runs all benchmarks or those named; ``NAME --option`` one with its options."""

import importlib
import sys

NAMES = (
    "sampler_timm_pool",
    "latency_prediction",
    "latency_kernels",
    "runtimes",
    "browser",
    "measurement",
    "data_check",
    "data_check_large",
    "growth",
    "growth_counts",
    "compression",
    "answers",
    "micro_arena",
    "model_import",
    "training",
    "gpu",
    "training_accuracy",
    "accuracy",
    "anytime",
    "anytime_table",
    "anytime_replay",
    "decision_answers",
    "decision",
    "detection",
    "detector_start",
    "tiling",
    "pixels",
    "other_conditions",
    "confidence",
    "updates",
    "tagging",
    "tagging_anytime",
    "trashnet_table",
    "trashnet_climb",
    "fleet",
    "first_answer",
    "search_cost",
    "tuning_promotion",
    "plan_cost",
    "kills",
    "soak",
    "hostile",
    "hostile_changes",
    "two_workers",
    "clusters",
)


def main() -> int:
    """Run the benchmarks one after the other and return 0, or 2 for an unknown name."""
    first = next((place for place, word in enumerate(sys.argv) if place and word.startswith("-")), len(sys.argv))
    chosen, options = sys.argv[1:first] or NAMES, sys.argv[first:]
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        print(f"error: unknown benchmark {', '.join(unknown)}; there are: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    if options and len(chosen) != 1:
        print(f"error: {options[0]} is for one benchmark: name it first", file=sys.stderr)
        return 2
    sys.argv[1:] = options
    for name in chosen:
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
    return 0


sys.exit(main())
