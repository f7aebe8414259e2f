"""The catalogue and the devices on the terminal: their tables, one card, one device, and what was changed in them."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import typer

from advisor.catalog import listing
from advisor.core import HOST, TASKS, plain, plural, show_bytes, show_latency, show_ms
from advisor.devices import LocalRuntime, listing as devices, local_runtimes
from advisor.measurement import find_serving
from advisor.reporting._blocks import WIDE, TableColumn, show, table_of
from advisor.reporting._frames import Rows
from advisor.reporting._text import MISSING

if TYPE_CHECKING:
    from advisor.catalog import Card, CardRow, Checked, Conversion, Fetched, ImportedModel
    from advisor.devices import AddedPhone, Calibrated, DeviceProfile, DeviceTarget, NewDevice, UnitTiming
    from advisor.engine import FileAgreement

CARDS = Rows(listing.COLUMNS, listing.CardRow.to_row)
"""Cards of the catalogue."""

DEVICES = Rows(devices.LIST_COLUMNS, devices.list_row)
"""Devices, one row each."""

RICH_ROWS = 300
"""Up to this number of rows, a table is laid out for the terminal width, which takes 0.3 ms a row."""

CARD_LATENCY = TableColumn[listing.CardRow](
    "latency", lambda row: show_latency(row.latency) if row.latency else "", left=True, whole=True
)


def _show_percent(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1f}"


def _show_int8(row: CardRow) -> str:
    """Return the published accuracy as int8, marked if it belongs to other weights."""
    if row.top1_int8_qat and not row.top1_int8:
        return f"{_show_percent(row.top1_int8_qat)}*"
    return _show_percent(row.top1_int8)


@cache
def _list_card_columns() -> tuple[TableColumn[CardRow], ...]:
    """Return the columns of the cards."""
    return (
        TableColumn("card", lambda row: row.card.name, left=True, whole=True),
        TableColumn("top-1 %", lambda row: _show_percent(row.top1)),
        CARD_LATENCY,
        TableColumn("int8 %", _show_int8),
        TableColumn("params M", lambda row: f"{row.card.params / 1e6:.2f}"),
        TableColumn("MACs M", lambda row: f"{row.card.macs / 1e6:,.0f}"),
        TableColumn("~MB", lambda row: f"{row.size_bytes / 1e6:.1f}", width=90),
        TableColumn("licence", lambda row: row.card.licence, left=True, width=WIDE),
        TableColumn("here", lambda row: "yes" if row.here else "", left=True),
        TableColumn(
            "weights from", lambda row: ", ".join(dict.fromkeys(row.weights)) or "no known source", left=True, width=150
        ),
    )


def _describe_versions(runtime: LocalRuntime) -> str:
    """Return the versions of what a runtime of this machine needs, or what is not installed; nothing is fetched."""
    versions = runtime.versions(runtime.profile().target())
    absent = [name for name, version in versions.items() if not version]
    return f"not installed: {', '.join(absent)}" if absent else ", ".join(map(" ".join, versions.items()))


def _describe_source(profile: DeviceProfile) -> str:
    runtime = local_runtimes().get(profile.name)
    lacks = runtime is not None and _describe_versions(runtime).startswith("not installed")
    return devices.find_provenance(profile) + ("; not installed" if lacks else "")


@cache
def _list_device_columns() -> tuple[TableColumn[DeviceProfile], ...]:
    """Return the columns of the devices."""
    return (
        TableColumn("device", lambda profile: profile.name, left=True, whole=True),
        TableColumn("kind", lambda profile: profile.kind, left=True, whole=True),
        TableColumn("SoC", lambda profile: profile.soc, left=True),
        TableColumn("default target", lambda profile: profile.default_target, left=True, width=110, whole=True),
        TableColumn("targets", lambda profile: len(profile.targets), width=100),
        TableColumn("measurements", devices.count_measured, short="known"),
        TableColumn("from", _describe_source, left=True, width=130),
    )


def print_cards(rows: Sequence[CardRow]) -> None:
    """Print the table of cards, and a legend."""
    if not rows:
        typer.echo("no card passes these filters")
        return
    timed = any(row.latency for row in rows)
    columns = []
    for column in _list_card_columns():
        if timed or column is not CARD_LATENCY:
            columns.append(column)
    shown = table_of(columns, rows)
    if len(rows) <= RICH_ROWS:
        show([shown])
    else:
        cells = [[column.title for column in columns]]
        cells += [list(map(plain, row)) for row in shown.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        sides = ["<" if column.left else ">" for column in columns]
        for line in cells:
            padded = (f"{cell:{side}{width}}" for cell, side, width in zip(line, sides, widths, strict=True))
            typer.echo("  ".join(padded).rstrip())
    on_disk = sum(row.here for row in rows)
    count = f"{plural(len(rows), 'card')}, the weights of {on_disk} on this machine"
    typer.echo(f"{count}; details: advisor catalog show NAME")
    typer.echo("Top-1: published, ImageNet; * quantization-aware training, other weights. ~MB: a float32 file.")


def _print_facts(name: str, facts: Iterable[tuple[str, str]], width: int) -> None:
    """Print the facts that are known, below a name."""
    typer.secho(plain(name), bold=True)
    for key, value in facts:
        if value:
            typer.echo(f"  {key:<{width}} {plain(value)}")


def print_card(card: Card, here: bool) -> None:
    """Print the content of a card, with its sources."""
    mean = ", ".join(f"{value:g}" for value in card.preprocessing.mean)
    std = ", ".join(f"{value:g}" for value in card.preprocessing.std)
    facts = (
        ("family", card.family),
        ("input", f"{card.input_size} x {card.input_size} RGB, (value - mean) / std"),
        ("mean", mean),
        ("std", std),
        ("classes", f"{card.classes}" + (", label 0 is the background" if card.label_offset else "")),
        ("parameters", f"{card.params:,}"),
        ("MACs", f"{card.macs:,}"),
        ("licence", card.licence),
        ("paper", card.paper),
        ("graph", " ".join([card.architecture, *(f"{key}={value}" for key, value in card.arguments)])),
        ("conversion", _describe_conversion(card.conversion) if card.conversion else ""),
        ("note", card.note),
    )
    _print_facts(card.name, facts, 11)
    typer.secho("published", bold=True)
    for record in card.published:
        figures = (
            f"{record.precision:<9}",
            record.top1 is not None and f"top-1 {record.top1:g} %",
            record.top5 is not None and f"top-5 {record.top5:g} %",
            record.map is not None and f"COCO's mAP {record.map:g} %",
            record.params is not None and f"{record.params:,} parameters",
            record.macs is not None and f"{record.macs:,} MACs",
        )
        typer.echo(f"  {'  '.join(figure for figure in figures if figure)}")
        typer.echo(f"    {plain(record.source)}" + (f" ({plain(record.note)})" if record.note else ""))
    if not card.published:
        typer.echo("  nothing")
    typer.secho("weights" + (" (on this machine)" if here else " (not on this machine)"), bold=True)
    for source in card.weights:
        typer.echo(f"  {plain(source.label)}" + (f"  {source.licence}" if source.licence else ""))
        if source.archive:
            typer.echo(f"    archive {plain(source.archive)}  sha256 {source.archive_sha256}")
        for member in source.members:
            size = f"{show_bytes(member.size_bytes)}  " if member.size_bytes else ""
            known = f"sha256 {member.sha256}" if member.sha256 else member.key.replace("-", " ", 1)
            typer.echo(f"    {source.format}  {plain(member.path)}  {size}{known or 'no hash: use your own copy'}")
    if not card.weights:
        typer.echo("  no source is known: latency, size and memory can be measured; shipping needs your own file")


def print_checked_cards(checked: Checked, build: bool) -> None:
    """Print every error, the notes by kind, and the outcome; ``build``: graphs were to be built as well."""
    for finding in checked.errors:
        name = f"{finding.card}: " if finding.card else ""
        typer.secho(f"{plain(finding.place)}: {name}{plain(finding.text)}", err=True)
    notes = Counter(finding.text for finding in checked.findings if finding.level.value == "note")
    for text, count in notes.most_common():
        typer.echo(f"note: {count} x {plain(text)}")
    verified = checked.verified
    typer.echo(f"compared with: the schema, each other's names, {plural(verified.counts, 'published count')}")
    hashes = f"{verified.strong} by SHA-256 or SHA-384, {verified.weak} by MD5 or first digits of a hash"
    typer.echo(f"sources of weights: {hashes}, {verified.unknown} without a hash (never downloaded)")
    typer.echo(f"on this machine: the weights of {plural(len(verified.hashed), 'card')}, hashed now: as stated")
    if verified.sourceless:
        typer.echo(f"no source that can be checked (see their notes): {', '.join(verified.sourceless)}")
    graphs = f", {checked.built or 'no'} graphs built" if build else ""
    outcome = plural(len(checked.errors), "error") if checked.errors else "all hold"
    typer.echo(f"{plural(checked.cards, 'card')}{graphs}: {outcome}.")


def print_fetched(fetched: Sequence[Fetched]) -> None:
    """Print the fetched weights, and for the cards without weights the reasons, without the addresses tried."""
    there = [entry for entry in fetched if entry.cached]
    new = [entry for entry in there if entry.source != "cache"]
    for entry in new:
        typer.echo(f"{entry.card}: from {plain(entry.source)}")
    lacking = [entry for entry in fetched if not entry.cached]
    by_reason: dict[str, list[str]] = {}
    for entry in lacking:
        first, *tried = entry.reason.splitlines()
        # Cards lack weights for the same few reasons; with the addresses, each would be a reason of its own.
        reasons = [line.strip().partition(": ")[2] for line in tried] or [first.partition(" for '")[0]]
        by_reason.setdefault(plain("; ".join(dict.fromkeys(reasons))), []).append(entry.card)
    for reason, cards in by_reason.items():
        typer.echo(f"not fetched: {', '.join(cards)}\n  {reason}")
    hints = dict.fromkeys(entry.hint for entry in lacking if entry.hint)
    for hint in list(hints)[:2]:
        typer.echo(f"hint: {plain(hint)}")
    typer.echo(f"{len(there)} of {len(fetched)} cards have their weights in the cache, {len(new)} of them new.")


def print_added_card(added: ImportedModel) -> None:
    """Print the new card, its answers on photographs, and the next command."""
    from advisor.catalog import own_files_of, user_catalogue_file

    card = added.card
    typer.echo(
        f"{card.name}: input {card.input_size} x {card.input_size}, {card.classes} classes, "
        f"{card.params:,} parameters, {card.macs:,} MACs"
    )
    if card.conversion:
        typer.echo(f"  {_describe_conversion(card.conversion)}")
    for photograph, label, probability in added.seen:
        typer.echo(f"  {photograph}: {plain(label)} ({100 * probability:.0f} %)")
    files = own_files_of(card.task)
    if card.form:
        typer.echo(f"  it keeps its form ({card.form}): a search measures and judges it as it is")
    for remark in files.remarks(added):
        typer.echo(f"  {remark}")
    typer.echo(f"kept in {added.catalogue} and {added.model}")
    named = "" if added.catalogue == user_catalogue_file() else f" --catalog {shlex.quote(str(added.catalogue))}"
    typer.echo(f"next: advisor search --budget 50ms{files.search_options} --candidates {card.name}{named}")


def _describe_conversion(conversion: Conversion) -> str:
    """Return how a conversion went: against what, how far apart, and the transposes that it left."""
    left = "no transposes left"
    if conversion.transposes:
        moved = f"{100 * conversion.transposed:.1f} % of the values that operators read and write"
        left = f"{plural(conversion.transposes, 'transpose')} left, with {moved}"
    return (
        f"by {conversion.converter}; against {conversion.runtime} on {conversion.images} images: the same class on top "
        f"in {100 * conversion.agreement:.0f} %, largest difference {conversion.difference:.1g} of the largest score; "
        f"{left}"
    )


def print_judged(card: Card, images: str, found: FileAgreement) -> None:
    """Print the accuracy of a user's own file on the user's images."""
    reached = found.accuracy
    assert reached is not None, "the images were labelled"
    low = 100 * reached.low
    high = 100 * reached.high
    metric = TASKS[card.task].metric
    typer.echo(f"{metric} on {images}: {100 * reached.value:.1f} % (95 %: {low:.1f} to {high:.1f})")


def print_devices(profiles: Sequence[DeviceProfile], by_kind: bool = False) -> None:
    """Print the devices, ``by_kind`` in one table each, and their number."""
    if not profiles:
        typer.echo("no device passes these filters")
        return
    groups: dict[str, list[DeviceProfile]] = {}
    for profile in profiles:
        groups.setdefault(profile.kind if by_kind else "", []).append(profile)
    show([table_of(_list_device_columns(), group) for group in groups.values()])
    known = sum(map(devices.count_measured, profiles))
    count = f"{plural(len(profiles), 'device')}, {known:,} measurements of models on them"
    typer.echo(f"{count}; details: advisor devices show NAME; fewer: --filter kind=phone")


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
    clusters = ((cluster, f" at {cluster.max_mhz} MHz" if cluster.max_mhz else "") for cluster in profile.cores)
    facts = (
        ("title", profile.title),
        ("kind", profile.kind),
        ("SoC", profile.soc),
        ("ISA", profile.isa),
        ("cores", ", ".join(f"{cluster.count} x {cluster.core}{clock}" for cluster, clock in clusters)),
        *(("note", remark) for remark in devices.list_remarks(profile)),
        ("NPU", profile.npu),
        *((name, "" if size is None else show_bytes(size)) for name, size in sizes.items()),
        ("reached", "" if reach is None else f"{reach.way} {reach.address}"),
        ("profile", str(profile.origin or devices.THIS_MACHINE)),
    )
    _print_facts(profile.name, facts, 10)
    typer.secho("targets", bold=True)
    for target in profile.targets:
        _print_target(profile, target)
    if profile.name == HOST:
        typer.secho("other runtimes here", bold=True)
        for name, runtime in local_runtimes().items():
            typer.echo(f"  {name}: {plain(runtime.title)}; {_describe_versions(runtime)}")
    typer.secho("measurements", bold=True)
    unused = devices.count_flagged(profile)
    typer.echo(f"  {devices.count_measured(profile):,} known" + (f", {unused:,} more not used" if unused else ""))
    for source, count in devices.measurement_sources(profile).items():
        typer.echo(f"  {count:,} from {plain(source)}")
    typer.secho("sources", bold=True)
    for source in profile.sources or ("not stated",):
        typer.echo(f"  {plain(source)}")


def _print_target(profile: DeviceProfile, target: DeviceTarget) -> None:
    """Print one target of a device: what it runs, what is known of it, and accelerators that serve it."""
    kernels = sum(kernel.target == target.name for kernel in profile.kernels)
    parts = (
        " ".join(part for part in (target.runtime, target.version) if part),
        f"cpu, {plural(target.threads, 'thread')}" if target.accelerator == "cpu" else target.accelerator,
        "/".join(target.precisions),
        f"{devices.count_measured(profile, target):,} measured",
        f"{plural(kernels, 'kernel')} timed" if kernels else "",
        "default" if target.name == profile.default_target else "",
    )
    typer.echo(f"  {plain(target.name)}: {plain('; '.join(part for part in parts if part))}")
    if target.operators:
        typer.echo(f"    operators: {plain(', '.join(target.operators))}")
    for accelerator in find_serving(target.runtime, target.accelerator) if target.accelerator != "cpu" else ():
        takes = f"supports {plural(len(accelerator.supported), 'kind')} of operators, {accelerator.about}"
        typer.echo(f"    {plain(accelerator.title)}: {plain(takes)}")
        typer.echo(f"      operators of a file that it supports: advisor profile FILE --accelerator {accelerator.name}")


def print_added_device(added: NewDevice, phone: AddedPhone | None = None) -> None:
    """Print the stored profile and what to do next; of an attached ``phone`` also its facts and first timings."""
    profile = added.profile
    if phone is not None:
        _print_phone(phone)
    targets = plural(len(profile.targets), "target")
    typer.echo(f"{profile.name}: {targets}, {plural(len(profile.measurements), 'measurement')}")
    typer.echo(f"{'replaced' if added.replaced else 'kept in'} {plain(str(added.path))}")
    if added.hides_shipped:
        typer.echo("it is used instead of the shipped profile of this name")
    if phone is None:
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
        facts.append(f"{show_bytes(phone.memory_bytes)} memory, {show_bytes(phone.free_memory_bytes)} of it free")
    typer.echo(plain("; ".join(filter(None, facts))))
    typer.echo(plain(f"measured with benchmark_model: {added.tool}"))
    show([table_of(_list_unit_columns(), added.timings)])


def _list_unit_columns() -> tuple[TableColumn[UnitTiming], ...]:
    return (
        TableColumn("target", lambda row: row.target, left=True),
        TableColumn("form", lambda row: row.form, left=True),
        TableColumn("ms", lambda row: row.latency_ms),
        TableColumn("start ms", lambda row: row.start_ms),
        TableColumn("", lambda row: row.failure or row.placement, left=True),
    )


def print_calibrated(found: Calibrated) -> None:
    """Print each model's latency with the prediction error before and after, and the path of the profile."""
    from advisor.devices import QUIET_HINT

    typer.echo(f"{found.profile.name}:{found.target.name}, measured with {plain(found.runtime)}")
    for report in found.reports:
        typer.secho(report.form, bold=True)
        after = report.after or (None,) * len(report.models)
        for model, before, later in zip(report.models, report.before, after, strict=True):
            left_out = "" if later is None else f", {later:+.0%} from the others"
            latency = show_ms(found.latency_ms[model, report.form])
            typer.echo(f"  {model:<28} {latency:>9}  predicted {before:+.0%} before{left_out}")
        for model, expected_ms in report.contradicting.items():
            expects = f"the others, which expect {show_ms(expected_ms)}"
            typer.echo(f"  {plain(model)} contradicts {expects}: measure it again")
        line = f"  median error {report.median_before:.0%} before"
        typer.echo(line + (f", {report.median_after:.0%} after (leave one out)" if report.after else ""))
        if not math.isnan(report.expected_after):
            expected = f"{report.expected_before:.0%} before, {report.expected_after:.0%} after"
            typer.echo(f"  expected median error of models that were not measured: {expected}")
    if found.networks.clock:
        typer.echo(plain(found.networks.clock))
    if found.pick:
        typer.echo(plain(found.pick))
    if found.networks.governor:
        typer.echo(f"frequency governor of the device: {plain(found.networks.governor)}; others give other latencies")
    for line in found.networks.left_out:
        typer.echo(f"left out: {plain(line)}; {QUIET_HINT}, then calibrate again")
    kernels = sum(kernel.target == found.target.name for kernel in found.profile.kernels)
    if kernels:
        typer.echo(f"{plural(kernels, 'kernel')} timed" + (f", {len(found.left_out)} left out" * bool(found.left_out)))
    for line in found.left_out:
        typer.echo(f"  left out: {plain(line)}")
    typer.echo(f"kept in {plain(str(found.path))}")
