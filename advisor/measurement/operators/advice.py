"""What a profile says to do, in words, each sentence with its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.measurement.operators.profile_values import Profile, TypeTime

FALLBACK_SHARE = 0.2
CONVERSION_SHARE = 0.1
COMPUTE_SHARE = 0.9
FIRST_SHARE = 0.25
MANY_PARTITIONS = 3  # more hand-overs than this cost more than a delegate gains (TFLite delegate guidance)
MEMORY_SHARE = 0.2
NEAR_ROOF = 0.5
DOMINANT_SHARE = 0.5

_COMPUTE = {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"}
_CONVERSIONS = {"QUANTIZE", "DEQUANTIZE", "CAST"}
_REMEDIES = {
    ("HARD_SWISH", "int8"): "prefer float32 or a variant with relu6 on this target",
    ("HARD_SWISH", "uint8"): "prefer float32 or a variant with relu6 on this target",
    ("DEPTHWISE_CONV_2D", "float32"): "prefer weight_int8, int8 or float32 to dynamic_int8 on this target",
    ("CONV_2D", "float32"): "prefer weight_int8, int8 or float32 to dynamic_int8 on this target",
}


def advise(profile: Profile) -> tuple[str, ...]:
    """Return the sentences that apply, the weightiest first; always at least one."""
    found = [
        *_outside(profile),
        *_conversions(profile),
        *_partitions(profile),
        *_memory(profile),
        *_first(profile),
        *_compute(profile),
    ]
    return tuple(found) or (_balanced(profile),)


def _outside(profile: Profile) -> list[str]:
    """Say which types run outside XNNPACK and take much of the time."""
    if profile.kernels == "builtin":
        return []
    rows = [row for row in profile.by_type if row.where == "builtin" and row.share >= FALLBACK_SHARE]
    return [
        f"{row.share:.0%} of the time is {row.type} outside XNNPACK ({_typed(row)}): {_remedy(row)}"
        for row in rows
        if row.type not in _CONVERSIONS
    ]


def _remedy(row: TypeTime) -> str:
    """Return what to do about a type that XNNPACK does not take."""
    if row.data_type == "int16":
        return "16-bit activations run on slow reference kernels here: prefer int8 or float32 on this target"
    default = f"another compression or a variant without {row.type} may be faster on this target"
    return _REMEDIES.get((row.type, row.data_type), default)


def _conversions(profile: Profile) -> list[str]:
    """Say how much goes into conversions between types."""
    share = sum(row.share for row in profile.by_type if row.type in _CONVERSIONS)
    if share < CONVERSION_SHARE:
        return []
    return [f"{share:.0%} of the time converts between types: keep one type from input to output"]


def _partitions(profile: Profile) -> list[str]:
    """Say that the graph is cut into many pieces."""
    if profile.partitions <= MANY_PARTITIONS:
        return []
    kinds = sorted({row.type for row in profile.by_type if row.where == "builtin"})
    return [f"the run enters XNNPACK {profile.partitions} times, cut apart by {', '.join(kinds)}: each hand-over costs"]


def _memory(profile: Profile) -> list[str]:
    """Say which operators wait for memory: weights read once, at half the copy speed or more."""
    roof = profile.roofline
    if roof is None:
        return []
    rows = [
        row
        for row in profile.operators
        if row.type == "FULLY_CONNECTED" and row.gbytes and row.gbytes >= NEAR_ROOF * roof.gbytes
    ]
    share = sum(row.share for row in rows)
    if share < MEMORY_SHARE:
        return []
    moved_mb = sum(row.node.bytes_moved for row in rows if row.node) / 1e6
    return [
        f"{share:.0%} of the time is FULLY_CONNECTED reading {moved_mb:.1f} MB at memory speed "
        f"({roof.gbytes:.0f} GB/s): fewer bits a weight or fewer units help, faster arithmetic does not"
    ]


def _first(profile: Profile) -> list[str]:
    """Say that one operator alone dominates."""
    row = profile.top(1)[0]
    if row.share < FIRST_SHARE or len(profile.operators) < 5 or row.where == "builtin":
        return []
    place = f"operator {row.node.index}" if row.node else f"step {row.position}"
    shape = f", {row.node.outputs[0]}" if row.node and row.node.outputs else ""
    return [f"{row.share:.0%} of the time is one {row.type} ({place}{shape}): a smaller input shrinks it"]


def _compute(profile: Profile) -> list[str]:
    """Say that only the arithmetic of the layers is left."""
    share = sum(row.share for row in profile.by_type if row.type in _COMPUTE and row.where == "XNNPACK")
    if share < COMPUTE_SHARE:
        return []
    rate = 2 * profile.macs / profile.whole_us / 1e3
    roof = profile.roofline
    floating = all(row.data_type in ("float32", "") for row in profile.by_type if row.type in _COMPUTE)
    limit = _limit(rate / roof.gflops) if roof and floating and profile.threads == 1 else ""
    rate_text = (
        f" ({profile.macs / 1e6:.0f} million MACs at {rate:.0f} billion operations/s{limit})" if profile.macs else ""
    )
    return [f"convolutions and fully connected layers take {share:.0%}{rate_text}: only a smaller model wins more"]


def _limit(part: float) -> str:
    """Say how near the arithmetic comes to the roof; the roof itself is measured, and may be passed by some percent."""
    return ", as much as this core was measured to do" if part >= 1 else f", {part:.0%} of what this core can do"


def _balanced(profile: Profile) -> str:
    """Say which part is the largest, and that nothing stands out where that is less than half."""
    row = profile.by_type[0]
    if row.share >= DOMINANT_SHARE:
        kernels = " by the builtin kernels, as XNNPACK is off" if profile.kernels == "builtin" else ""
        return f"{row.share:.0%} of the time is {row.type} ({_typed(row)}){kernels}"
    return f"no operator type stands out; the largest is {row.type} with {row.share:.0%} ({_typed(row)})"


def _typed(row: TypeTime) -> str:
    """Return ``11 operators, int8``."""
    plural = "s" if row.count > 1 else ""
    return f"{row.count} operator{plural}{', ' + row.data_type if row.data_type else ''}"
