"""Print the devices: their table, one device, and what was added or calibrated.

``_devices.py`` calls these functions for ``advisor devices``; :data:`DEVICES` also selects and
sorts rows. With ``--json`` it prints the values themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import typer

from advisor.api import list_accelerators
from advisor.cli._card_output import print_facts
from advisor.core import HOST, plain, plural, show_bytes, show_ms
from advisor.devices import LocalRuntime, listing, local_runtimes
from advisor.reporting import Rows, blocks

if TYPE_CHECKING:
    from advisor.devices import (
        AddedPhone,
        Calibrated,
        DeviceProfile,
        DeviceTarget,
        NewDevice,
        UnitTiming,
    )

DEVICES = Rows(listing.LIST_COLUMNS, listing.list_row)
"""Devices, one row each."""


def _describe_versions(runtime: LocalRuntime) -> str:
    """Return the versions of what a runtime of this machine needs, or what is not installed;
    nothing is fetched.
    """
    versions = runtime.versions(runtime.profile().target())
    absent = []
    for name, version in versions.items():
        if not version:
            absent.append(name)
    if absent:
        return f"not installed: {', '.join(absent)}"
    return ", ".join(map(" ".join, versions.items()))


def _describe_source(profile: DeviceProfile) -> str:
    runtime = local_runtimes().get(profile.name)
    lacks = runtime is not None and _describe_versions(runtime).startswith("not installed")
    return listing.find_provenance(profile) + ("; not installed" if lacks else "")


@cache
def _list_device_columns() -> tuple[blocks.TableColumn[DeviceProfile], ...]:
    """Return the columns of the listing."""
    return (
        blocks.TableColumn("device", lambda profile: profile.name, left=True, whole=True),
        blocks.TableColumn("kind", lambda profile: profile.kind, left=True, whole=True),
        blocks.TableColumn("SoC", lambda profile: profile.soc, left=True),
        blocks.TableColumn(
            "default target",
            lambda profile: profile.default_target,
            left=True,
            width=110,
            whole=True,
        ),
        blocks.TableColumn("targets", lambda profile: len(profile.targets), width=100),
        blocks.TableColumn("measurements", listing.count_measured, short="known"),
        blocks.TableColumn("from", _describe_source, left=True, width=130),
    )


def print_devices(
    profiles: Sequence[DeviceProfile], by_kind: bool = False, are_all: bool = True
) -> None:
    """Print the devices, ``by_kind`` in one table each, and their number.

    If they ``are_all``, the last line says how to see fewer.
    """
    if not profiles:
        typer.echo("no device passes these filters")
        return
    groups: dict[str, list[DeviceProfile]] = {}
    for profile in profiles:
        groups.setdefault(profile.kind if by_kind else "", []).append(profile)
    blocks.show([blocks.table_of(_list_device_columns(), group) for group in groups.values()])
    # The measurements of all that are shown, which the filters have chosen.
    count_known = sum(map(listing.count_measured, profiles))
    count = f"{plural(len(profiles), 'device')}, {count_known:,} measurements of models on them"
    fewer = "; fewer: --filter kind=phone" if are_all else ""
    typer.echo(f"{count}; details: advisor devices show NAME{fewer}")


def print_device(profile: DeviceProfile) -> None:
    """Print the content of a profile; for its measurements, the number and the sources."""
    limits = profile.limits
    reach = profile.connection
    sizes = {
        "memory": profile.memory_bytes,
        "storage": profile.storage_bytes,
        "max arena": limits.arena_bytes,
        "max flash": limits.flash_bytes,
        "max app": limits.package_bytes,
    }
    facts = [
        ("title", profile.title),
        ("kind", profile.kind),
        ("SoC", profile.soc),
        ("ISA", profile.isa),
        ("cores", ", ".join(_list_clusters(profile))),
    ]
    facts += [("note", remark) for remark in listing.list_remarks(profile)]
    facts.append(("NPU", profile.npu))
    for name, size in sizes.items():
        facts.append((name, "" if size is None else show_bytes(size)))
    facts.append(("reached", "" if reach is None else f"{reach.way} {reach.address}"))
    facts.append(("profile", str(profile.origin or listing.THIS_MACHINE)))
    print_facts(profile.name, facts, 10)
    typer.secho("targets", bold=True)
    for target in profile.targets:
        _print_target(profile, target)
    if profile.name == HOST:
        typer.secho("other runtimes here", bold=True)
        for name, runtime in local_runtimes().items():
            typer.echo(f"  {name}: {plain(runtime.title)}; {_describe_versions(runtime)}")
    typer.secho("measurements", bold=True)
    # A flagged measurement stays in the file with its reason, and no prediction uses it.
    unused = listing.count_flagged(profile)
    more = f", {unused:,} more not used" if unused else ""
    typer.echo(f"  {listing.count_measured(profile):,} known{more}")
    for source, count in listing.measurement_sources(profile).items():
        typer.echo(f"  {count:,} from {plain(source)}")
    typer.secho("sources", bold=True)
    for source in profile.sources or ("not stated",):
        typer.echo(f"  {plain(source)}")


def _list_clusters(profile: DeviceProfile) -> list[str]:
    """Return the clusters of a processor in words: ``4 x cortex-a72 at 1800 MHz``."""
    clusters = []
    for cluster in profile.cores:
        clock = f" at {cluster.max_mhz} MHz" if cluster.max_mhz else ""
        clusters.append(f"{cluster.count} x {cluster.core}{clock}")
    return clusters


def _print_target(profile: DeviceProfile, target: DeviceTarget) -> None:
    """Print one target of a device: what it runs, what is known of it,
    and accelerators that serve it.
    """
    kernels = sum(kernel.target == target.name for kernel in profile.kernels)
    unit = target.accelerator
    if unit == "cpu":
        unit = f"cpu, {plural(target.threads, 'thread')}"
    parts = [
        " ".join(filter(None, (target.runtime, target.version))),
        unit,
        "/".join(target.precisions),
        f"{listing.count_measured(profile, target):,} measured",
        f"{plural(kernels, 'kernel')} timed" if kernels else "",
        "default" if target.name == profile.default_target else "",
    ]
    typer.echo(f"  {plain(target.name)}: {plain('; '.join(filter(None, parts)))}")
    if target.operators:
        typer.echo(f"    operators: {plain(', '.join(target.operators))}")
    for accelerator in list_accelerators(profile, target):
        takes = (
            f"supports {plural(len(accelerator.supported), 'kind')} of operators,"
            f" {accelerator.about}"
        )
        typer.echo(f"    {plain(accelerator.title)}: {plain(takes)}")
        typer.echo(
            "      operators of a file that it supports: advisor profile FILE --accelerator"
            f" {accelerator.name}"
        )


def print_added_device(added: NewDevice, phone: AddedPhone | None = None) -> None:
    """Print the stored profile and what to do next;
    of an attached ``phone`` also its facts and first timings.
    """
    profile = added.profile
    if phone is not None:
        _print_phone(phone)
    targets = plural(len(profile.targets), "target")
    typer.echo(f"{profile.name}: {targets}, {plural(len(profile.measurements), 'measurement')}")
    verb = "replaced" if added.replaced else "kept in"
    typer.echo(f"{verb} {plain(str(added.path))}")
    if added.hides_shipped:
        typer.echo("it is used instead of the shipped profile of this name")
    # A profile from a file was not tried by adding it: to look at it comes first.
    if phone is None:
        for remark in listing.list_remarks(profile):
            typer.echo(f"note: {plain(remark)}")
        typer.echo(f"next: advisor devices show {profile.name}")
        return
    typer.echo(f"next: advisor search --data photos/ --budget 50ms --device {profile.name}")
    typer.echo(f"      advisor reevaluate runs/latest --device {profile.name}")


def _print_phone(added: AddedPhone) -> None:
    """Print what a phone says of itself, the tool that measured, and a row for each unit."""
    phone = added.phone
    profile = added.device.profile
    cores = ", ".join(f"{cluster.count}x {cluster.core}" for cluster in profile.cores)
    typer.secho(plain(f"{profile.title}, {profile.soc}"), bold=True)
    facts = [f"Android {phone.android}" if phone.android else "", cores]
    if phone.memory_bytes and phone.free_memory_bytes:
        facts.append(
            f"{show_bytes(phone.memory_bytes)} memory, {show_bytes(phone.free_memory_bytes)} of it"
            " free"
        )
    typer.echo(plain("; ".join(filter(None, facts))))
    typer.echo(plain(f"measured with benchmark_model: {added.tool}"))
    blocks.show([blocks.table_of(_list_unit_columns(), added.timings)])


def _list_unit_columns() -> tuple[blocks.TableColumn[UnitTiming], ...]:
    return (
        blocks.TableColumn("target", lambda row: row.target, left=True),
        blocks.TableColumn("form", lambda row: row.form, left=True),
        blocks.TableColumn("ms", lambda row: row.latency_ms),
        blocks.TableColumn("start ms", lambda row: row.start_ms),
        blocks.TableColumn("", lambda row: row.failure or row.placement, left=True),
    )


def print_calibrated(calibrated: Calibrated) -> None:
    """Print each model's latency with the prediction error before and after,
    and the path of the profile.
    """
    typer.echo(
        f"{calibrated.profile.name}:{calibrated.target.name}, measured with"
        f" {plain(calibrated.runtime)}"
    )
    _print_reports(calibrated)
    if calibrated.networks.clock:
        typer.echo(plain(calibrated.networks.clock))
    if calibrated.pick:
        typer.echo(plain(calibrated.pick))
    if calibrated.networks.governor:
        typer.echo(
            f"frequency governor of the device: {plain(calibrated.networks.governor)}; others give"
            " other latencies"
        )
    for remark in calibrated.networks.remarks:
        typer.echo(f"left out: {plain(remark)}")
    kernels = sum(kernel.target == calibrated.target.name for kernel in calibrated.profile.kernels)
    if kernels:
        skipped = f", {len(calibrated.left_out)} left out" if calibrated.left_out else ""
        typer.echo(f"{plural(kernels, 'kernel')} timed{skipped}")
    for line in calibrated.left_out:
        typer.echo(f"  left out: {plain(line)}")
    typer.echo(f"kept in {plain(str(calibrated.path))}")


def _print_reports(calibrated: Calibrated) -> None:
    """Print the latencies of the models, form by form, and how far predictions were off."""
    for report in calibrated.reports:
        typer.secho(report.form, bold=True)
        # Errors after the calibration are known only
        # where leaving one model out leaves enough others.
        after = report.after or (None,) * len(report.models)
        for model, before, later in zip(report.models, report.before, after, strict=True):
            from_others = "" if later is None else f", {later:+.0%} from the others"
            latency = show_ms(calibrated.latency_ms[model, report.form])
            typer.echo(f"  {model:<28} {latency:>9}  predicted {before:+.0%} before{from_others}")
        for model, expected_ms in report.contradicting.items():
            expects = f"the others, which expect {show_ms(expected_ms)}"
            typer.echo(f"  {plain(model)} contradicts {expects}: measure it again")
        later_error = f", {report.median_after:.0%} after (leave one out)" if report.after else ""
        typer.echo(f"  median error {report.median_before:.0%} before{later_error}")
        # Too few models say nothing about those that were not measured.
        if not math.isnan(report.expected_after):
            expected = f"{report.expected_before:.0%} before, {report.expected_after:.0%} after"
            typer.echo(f"  expected median error of models that were not measured: {expected}")
