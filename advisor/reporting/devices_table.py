"""Devices on the terminal: the table, one device, an added profile, a calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from advisor.core.units import plural, show_bytes, show_ms
from advisor.devices.profiles import listing
from advisor.measurement.accelerators import serving
from advisor.reporting.blocks import DataTable, TableColumn
from advisor.reporting.console import show
from advisor.reporting.selection import Rows
from advisor.reporting.text import plain

if TYPE_CHECKING:
    from advisor.devices.calibration import Calibrated, CalibrationReport
    from advisor.devices.profiles import Cluster, DeviceProfile, DeviceTarget
    from advisor.devices.profiles.listing import NewDevice

DEVICES = Rows(listing.LIST_COLUMNS, listing.list_row)
"""Devices, one row each."""

COLUMNS = (
    TableColumn("device", left=True, whole=True),
    TableColumn("kind", left=True, whole=True),
    TableColumn("SoC", left=True),
    TableColumn("default target", left=True, width=110, whole=True),
    TableColumn("targets", width=100),
    TableColumn("measurements", short="known"),
    TableColumn("from", left=True, width=130),
)


def print_rows(profiles: Sequence[DeviceProfile]) -> None:
    """Print the table, and the number of devices."""
    if not profiles:
        typer.echo("no device passes these filters")
        return
    show([DataTable(COLUMNS, list(map(_cells, profiles)))])
    known = sum(map(listing.measured, profiles))
    count = f"{plural(len(profiles), 'device')}, {known:,} measurements of models on them"
    typer.echo(f"{count}; details: advisor devices show NAME")


def print_device(profile: DeviceProfile) -> None:
    """Print the content of a profile; for its measurements, the number and the sources."""
    typer.secho(plain(profile.name), bold=True)
    for key, value in _facts(profile):
        if value:
            typer.echo(f"  {key:<10} {plain(value)}")
    typer.secho("targets", bold=True)
    for target in profile.targets:
        _print_target(profile, target)
    typer.secho("measurements", bold=True)
    unused = listing.flagged(profile)
    typer.echo(f"  {listing.measured(profile):,} known" + (f", {unused:,} more not used" if unused else ""))
    for source, count in listing.measurement_sources(profile).items():
        typer.echo(f"  {count:,} from {plain(source)}")
    typer.secho("sources", bold=True)
    for source in profile.sources or ("not stated",):
        typer.echo(f"  {plain(source)}")


def print_added(added: NewDevice) -> None:
    """Print the stored profile, and the next command."""
    profile = added.profile
    targets = plural(len(profile.targets), "target")
    typer.echo(f"{profile.name}: {targets}, {plural(len(profile.measurements), 'measurement')}")
    typer.echo(f"{'replaced' if added.replaced else 'kept in'} {added.path}")
    if added.hides_shipped:
        typer.echo("it is used instead of the shipped profile of this name")
    typer.echo(f"next: advisor devices show {profile.name}")


def print_calibrated(found: Calibrated) -> None:
    """Print each model's latency with the prediction error before and after, and the path of the profile."""
    typer.echo(f"{found.profile.name}:{found.target.name}, measured with {plain(found.runtime)}")
    for report in found.reports:
        _print_report(report, found)
    kernels = sum(kernel.target == found.target.name for kernel in found.profile.kernels)
    if kernels:
        typer.echo(f"{plural(kernels, 'kernel')} timed" + (f", {len(found.left_out)} left out" * bool(found.left_out)))
    for line in found.left_out:
        typer.echo(f"  left out: {plain(line)}")
    typer.echo(f"kept in {found.path}")


def _print_report(report: CalibrationReport, found: Calibrated) -> None:
    """Print the models of one form, and the errors of their predictions and of those of other models."""
    typer.secho(report.form, bold=True)
    after = report.after or (None,) * len(report.models)
    for model, before, later in zip(report.models, report.before, after, strict=True):
        left_out = "" if later is None else f", {later:+.0%} from the others"
        latency = show_ms(found.latency_ms[model, report.form])
        typer.echo(f"  {model:<28} {latency:>9}  predicted {before:+.0%} before{left_out}")
    for model, expected_ms in report.contradicting.items():
        typer.echo(f"  {plain(model)} contradicts the others, which expect {show_ms(expected_ms)}: measure it again")
    line = f"  median error {report.median_before:.0%} before"
    typer.echo(line + (f", {report.median_after:.0%} after (leave one out)" if report.after else ""))
    if not math.isnan(report.expected_after):
        expected = f"{report.expected_before:.0%} before, {report.expected_after:.0%} after"
        typer.echo(f"  expected median error of models that were not measured: {expected}")


def _cells(profile: DeviceProfile) -> tuple[str, ...]:
    return (
        profile.name,
        profile.kind,
        profile.soc,
        profile.default_target,
        str(len(profile.targets)),
        str(listing.measured(profile)),
        listing.provenance(profile),
    )


def _facts(profile: DeviceProfile) -> list[tuple[str, str]]:
    limits = profile.limits
    return [
        ("title", profile.title),
        ("kind", profile.kind),
        ("SoC", profile.soc),
        ("ISA", profile.isa),
        ("cores", ", ".join(map(_cluster, profile.cores))),
        *(("note", remark) for remark in listing.remarks(profile)),
        ("NPU", profile.npu),
        ("memory", _size(profile.memory_bytes)),
        ("storage", _size(profile.storage_bytes)),
        ("max arena", _size(limits.arena_bytes)),
        ("max flash", _size(limits.flash_bytes)),
        ("max app", _size(limits.package_bytes)),
        ("reached", _reached(profile)),
        ("profile", str(profile.origin or listing.THIS_MACHINE)),
    ]


def _print_target(profile: DeviceProfile, target: DeviceTarget) -> None:
    kernels = sum(kernel.target == target.name for kernel in profile.kernels)
    parts = (
        " ".join(part for part in (target.runtime, target.version) if part),
        f"cpu, {plural(target.threads, 'thread')}" if target.accelerator == "cpu" else target.accelerator,
        "/".join(target.precisions),
        f"{listing.measured(profile, target):,} measured",
        f"{plural(kernels, 'kernel')} timed" if kernels else "",
        "default" if target.name == profile.default_target else "",
    )
    typer.echo(f"  {plain(target.name)}: {plain('; '.join(part for part in parts if part))}")
    if target.operators:
        typer.echo(f"    operators: {plain(', '.join(target.operators))}")
    for each in serving(target.runtime, target.accelerator) if target.accelerator != "cpu" else ():
        takes = f"supports {plural(len(each.supported), 'kind')} of operators, {each.about}"
        typer.echo(f"    {plain(each.title)}: {plain(takes)}")
        typer.echo(f"      operators of a file that it supports: advisor profile FILE --accelerator {each.name}")


def _reached(profile: DeviceProfile) -> str:
    reach = profile.connection
    if reach is None:
        return ""
    return f"ssh {reach.ssh}" if reach.ssh else f"adb {reach.adb}"


def _cluster(cluster: Cluster) -> str:
    clock = f" at {cluster.max_mhz} MHz" if cluster.max_mhz else ""
    return f"{cluster.count} x {cluster.core}{clock}"


def _size(size: int | None) -> str:
    return "" if size is None else show_bytes(size)
