"""Write a device profile into the team's folder, for ``devices add`` and ``devices calibrate``."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.devices.connections.settings import ConnectionSettings
from advisor.devices.profiles.loading import read_profile
from advisor.devices.profiles.measurements import write_measurements
from advisor.devices.profiles.values import HOST, NAME_PATTERN, DeviceProfile, DeviceTarget


def write_profile(profile: DeviceProfile, folder: Path) -> Path:
    """Write ``profile`` as ``<name>.yaml`` and its measurements as ``<name>.csv``, and return the YAML file's path.

    Each file is replaced as a whole, so a profile is never half written.

    Raises:
        UsageError: the profile does not match the schema, or the folder is not writable.
    """
    import yaml

    if profile.name == HOST:
        raise UsageError(
            "the profile of 'host' is not written, because it is read from the machine", "give the device another name"
        )
    if not re.fullmatch(NAME_PATTERN, profile.name):
        raise UsageError(
            f"'{profile.name}' is not a valid device name", "use lower-case letters, digits, '.', '-' and '_'"
        )
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
        raise UsageError(
            f"cannot write to {folder}: {error.strerror}", "check its permissions and the free space"
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return path


def _document(profile: DeviceProfile) -> dict[str, object]:
    """Return the YAML document without unknown facts."""
    document: dict[str, object] = {
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


def _connection(settings: ConnectionSettings) -> dict[str, object]:
    return _known(
        {
            "ssh": settings.ssh,
            "adb": settings.adb,
            "port": settings.port,
            "python": settings.python if settings.ssh else "",
            "benchmark_model": str(settings.benchmark_model.absolute()) if settings.benchmark_model else "",
            "cores": settings.cores,
            "config": str(settings.config.absolute()) if settings.config else "",
        }
    )


def _target(target: DeviceTarget) -> dict[str, object]:
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


def _known(facts: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in facts.items() if value not in (None, "", [], {})}
