"""Say in words what a profile shows, and what would make the file faster.

Each sentence contains its evidence, and each function is one rule. The order of the rules in
:func:`advise_on` is that of importance.
"""

from collections.abc import Iterator

from advisor.core import plural
from advisor.measurement._operators.profile_values import Profile, TypeTime

# Shares of the time from which a sentence names something: a type outside XNNPACK, conversions of
# types, convolutions and fully connected layers, a single operator.
FALLBACK_SHARE = 0.2
CONVERSION_SHARE = 0.1
COMPUTE_SHARE = 0.9
FIRST_SHARE = 0.25

# More partitions than this cost more
# than a delegate gains (TensorFlow Lite's guidance on delegates).
MANY_PARTITIONS = 3
MEMORY_SHARE = 0.2  # Of the time, in operators that wait for memory
NEAR_ROOF = 0.5  # Of the copy speed: from there on, an operator waits for memory
DOMINANT_SHARE = 0.5  # Of the time, from which the largest type stands out

_COMPUTE = {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"}
_CONVERSIONS = {"QUANTIZE", "DEQUANTIZE", "CAST"}
_SLOW_INT16 = (
    "16-bit activations run on slow reference kernels here: prefer int8 or float32 on this target"
)
_NO_SWISH = "prefer float32 or a variant with relu6 on this target"
_NO_DYNAMIC = "prefer weight_int8, int8 or float32 to dynamic_int8 on this target"
_REMEDIES = {
    ("HARD_SWISH", "int8"): _NO_SWISH,
    ("HARD_SWISH", "uint8"): _NO_SWISH,
    ("DEPTHWISE_CONV_2D", "float32"): _NO_DYNAMIC,
    ("CONV_2D", "float32"): _NO_DYNAMIC,
}


def advise_on(profile: Profile) -> tuple[str, ...]:
    """Return the sentences that apply, the most important first; there is always at least one."""
    advice = list[str]()
    for rule in (_advise_outside, _advise_memory, _advise_first, _advise_compute):
        advice += rule(profile)
    return tuple(advice) or (_advise_balanced(profile),)


def _advise_outside(profile: Profile) -> Iterator[str]:
    """Name the types that run outside XNNPACK and take much of the time, conversions,
    and many partitions.
    """
    # With builtin kernels by request, all types run outside XNNPACK.
    for row in profile.by_type if profile.kernels != "builtin" else ():
        if row.where == "builtin" and row.share >= FALLBACK_SHARE and row.type not in _CONVERSIONS:
            remedy = _find_remedy(row)
            yield (
                f"{row.share:.0%} of the time is {row.type} outside XNNPACK ({_count_typed(row)}):"
                f" {remedy}"
            )
    share = sum(row.share for row in profile.by_type if row.type in _CONVERSIONS)
    if share >= CONVERSION_SHARE:
        yield f"{share:.0%} of the time converts between types: keep one type from input to output"
    if profile.partitions > MANY_PARTITIONS:
        kinds = sorted({row.type for row in profile.by_type if row.where == "builtin"})
        outside = f"{', '.join(kinds)} run{'s' if len(kinds) == 1 else ''} outside it"
        yield (
            f"the run enters XNNPACK {profile.partitions} times, because {outside}: each entry"
            " takes time"
        )


def _find_remedy(row: TypeTime) -> str:
    """Return what may make operators of a type that run outside XNNPACK faster."""
    if row.data_type == "int16":
        return _SLOW_INT16
    default = f"another compression or a variant without {row.type} may be faster on this target"
    return _REMEDIES.get((row.type, row.data_type), default)


def _advise_memory(profile: Profile) -> Iterator[str]:
    """Name operators that wait for memory: they read weights at half the copy speed or faster."""
    if profile.roofline is None:
        return
    speed = profile.roofline.gbytes
    rows = []
    for row in profile.operators:
        if row.type == "FULLY_CONNECTED" and row.gbytes and row.gbytes >= NEAR_ROOF * speed:
            rows.append(row)
    share = sum(row.share for row in rows)
    if share >= MEMORY_SHARE:
        moved_mb = sum(row.node.bytes_moved for row in rows if row.node) / 1e6
        yield (
            f"{share:.0%} of the time is FULLY_CONNECTED reading {moved_mb:.1f} MB at memory speed"
            f" ({speed:.0f} GB/s): smaller weights or fewer units help, faster arithmetic does not"
        )


def _advise_first(profile: Profile) -> Iterator[str]:
    """Report that a single operator dominates."""
    row = profile.top(1)[0]
    if row.share >= FIRST_SHARE and len(profile.operators) >= 5 and row.where != "builtin":
        step = f"operator {row.node.index}" if row.node else f"step {row.position}"
        shape = f", {row.node.outputs[0]}" if row.node and row.node.outputs else ""
        yield (
            f"{row.share:.0%} of the time is one {row.type} ({step}{shape}): a smaller input makes"
            " it faster"
        )


def _advise_compute(profile: Profile) -> Iterator[str]:
    """Report that the arithmetic of the layers takes nearly all of the time."""
    share = 0.0
    for row in profile.by_type:
        if row.type in _COMPUTE and row.where == "XNNPACK":
            share += row.share
    if share < COMPUTE_SHARE:
        return
    rate = 2 * profile.macs / profile.whole_us / 1e3
    roof = profile.roofline
    speed = ""
    types = {row.data_type for row in profile.by_type if row.type in _COMPUTE}
    floating = types <= {"float32", ""}
    if profile.macs:
        limit = ""
        if roof and floating and profile.threads == 1:
            part = rate / roof.gflops
            limit = f", {part:.0%} of the limit of this core"
            # The limit is measured: a run can exceed it by a few percent.
            if part >= 1:
                limit = ", the measured limit of this core"
        speed = (
            f" ({profile.macs / 1e6:.0f} million MACs at {rate:.0f} billion operations/s{limit})"
        )
    yield (
        f"convolutions and fully connected layers take {share:.0%}{speed}: only a smaller model is"
        " faster"
    )


def _advise_balanced(profile: Profile) -> str:
    """Name the largest type; below half of the time, say that none stands out."""
    row = profile.by_type[0]
    if row.share >= DOMINANT_SHARE:
        kernels = ""
        if profile.kernels == "builtin":
            kernels = " in the builtin kernels, because XNNPACK is off"
        return f"{row.share:.0%} of the time is {row.type} ({_count_typed(row)}){kernels}"
    return (
        f"no operator type stands out; the largest is {row.type} with {row.share:.0%}"
        f" ({_count_typed(row)})"
    )


def _count_typed(row: TypeTime) -> str:
    """Return ``11 operators, int8``."""
    count = plural(row.count, "operator")
    return f"{count}, {row.data_type}" if row.data_type else count
