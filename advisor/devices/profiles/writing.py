"""Writing a device profile: what ``devices add`` and ``devices calibrate`` leave in the team's folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from advisor.core.errors import UsageError
from advisor.devices.connections.settings import ConnectionSettings
from advisor.devices.profiles.loading import read_profile
from advisor.devices.profiles.measurements import write_measurements
from advisor.devices.profiles.values import HOST, NAME_PATTERN, DeviceProfile, DeviceTarget


def write_profile(profile: DeviceProfile, folder: Path) -> Path:
    """Write ``profile`` as ``<name>.yaml`` with its measurements beside it, and read it back.

    Files that are replaced are replaced whole: a profile is never half written.

    Returns:
        the path of the YAML file.

    Raises:
        UsageError: a profile that its own schema refuses; a folder that cannot be written to.
    """
    import yaml

    if profile.name == HOST:
        raise UsageError("the host's profile is not written: it is read from the machine", "give the device a name")
    if not re.fullmatch(NAME_PATTERN, profile.name):
        raise UsageError(f"'{profile.name}' is not a device's name", "use lower-case letters, digits, '.', '-' and '_'")
    text = yaml.safe_dump(_document(profile), sort_keys=False, allow_unicode=True, width=120)
    path, rows = folder / f"{profile.name}.yaml", folder / f"{profile.name}.csv"
    staging = folder / f".{profile.name}.new"
    try:
        staging.mkdir(parents=True, exist_ok=True)
        drafts = staging / path.name, staging / rows.name
        drafts[0].write_text(text, encoding="utf-8")
        write_measurements(drafts[1], profile.measurements)
        read_profile(drafts[0])
        drafts[1].replace(rows)
        drafts[0].replace(path)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written to: {error.strerror}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return path


def _document(profile: DeviceProfile) -> dict[str, Any]:
    """Return the YAML document, unknown facts left out."""
    document: dict[str, Any] = {
        "name": profile.name,
        "title": profile.title,
        "kind": profile.kind,
        "soc": profile.soc,
        "isa": profile.isa,
        "npu": profile.npu,
        "cores": [
            _known({"core": cluster.core, "count": cluster.count, "max_mhz": cluster.max_mhz})
            for cluster in profile.cores
        ],
        "memory": _bytes(profile.memory_bytes),
        "storage": _bytes(profile.storage_bytes),
        "limits": _known(
            {
                "arena": _bytes(profile.limits.arena_bytes),
                "flash": _bytes(profile.limits.flash_bytes),
                "package": _bytes(profile.limits.package_bytes),
            }
        ),
        "targets": [_target(target) for target in profile.targets],
        "default_target": profile.default_target,
        "connection": _connection(profile.connection) if profile.connection else None,
        "sources": list(profile.sources),
    }
    return _known(document)


def _connection(reach: ConnectionSettings) -> dict[str, Any]:
    return _known(
        {
            "ssh": reach.ssh,
            "adb": reach.adb,
            "port": reach.port,
            "python": reach.python if reach.ssh else "",
            "benchmark_model": str(reach.benchmark_model.absolute()) if reach.benchmark_model else "",
            "cores": reach.cores,
            "config": str(reach.config.absolute()) if reach.config else "",
        }
    )


def _target(target: DeviceTarget) -> dict[str, Any]:
    return _known(
        {
            "name": target.name,
            "runtime": target.runtime,
            "version": target.version,
            "accelerator": target.accelerator,
            "threads": target.threads,
            "precisions": list(target.precisions),
            "operators": list(target.operators),
        }
    )


def _bytes(size: int | None) -> str | None:
    return None if size is None else f"{size}B"


def _known(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if value not in (None, "", [], {})}
