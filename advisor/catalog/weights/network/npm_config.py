"""Find the npm registry in the user's npm configuration."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from advisor.catalog.weights.digest import Unavailable
from advisor.catalog.weights.network.transport import Transport, credentials_of

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry's root URL (no slash at the end), and how to reach it."""

    url: str
    transport: Transport


def registry_for(package: str) -> Registry:
    """Return the registry that holds ``package`` (a scope may have one of its own).

    Raises:
        Unavailable: npm is not installed and neither the environment nor an ``.npmrc`` names a registry.
    """
    files = _npmrc_files()
    options = _merged(files) | _from_npm()
    scope = package.partition("/")[0] if package.startswith("@") else ""
    named = options.get(f"{scope}:registry") or _variable("registry") or options.get("registry")
    if not named:
        raise Unavailable("npm is not installed, and no registry is named by npm_config_registry or an .npmrc")
    return Registry(str(named).rstrip("/"), _transport(options, files, str(named)))


def _transport(options: dict[str, Any], files: dict[str, str], url: str) -> Transport:
    from urllib.parse import urlsplit

    lax = str(options.get("strict-ssl", True)).lower() == "false"
    return Transport(
        proxy=str(options.get("https-proxy") or options.get("proxy") or ""),
        ca_file=str(options.get("cafile") or ""),
        trusted_hosts=(urlsplit(url).hostname or "",) if lax else (),
        credentials=credentials_of((url,)),
        tokens=tuple(
            (key.removesuffix(":_authToken"), value) for key, value in files.items() if key.endswith(":_authToken")
        ),
    )


def _settings() -> tuple[tuple[str, str], ...]:
    # What npm's answer depends on beside its files.
    relevant = ("npm_config_", "home", "path")
    return tuple(sorted(pair for pair in os.environ.items() if pair[0].lower().startswith(relevant)))


@lru_cache(maxsize=8)
def _listing(_settings: tuple[tuple[str, str], ...]) -> str:
    npm = shutil.which("npm")
    if npm is None:
        return "{}"
    try:
        done = subprocess.run(
            [npm, "config", "list", "--json"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return "{}"
    return done.stdout if done.returncode == 0 else "{}"


def _from_npm() -> dict[str, Any]:
    try:
        listed = json.loads(_listing(_settings()))
    except ValueError:
        return {}
    return {key: value for key, value in listed.items() if value is not None} if isinstance(listed, dict) else {}


def _npmrc_files() -> dict[str, str]:
    # npm prints no secrets, so tokens can only be read where they are written.
    own = _variable("userconfig")
    user = Path(own).expanduser() if own else Path.home() / ".npmrc"
    return _npmrc(user) | _npmrc(Path.cwd() / ".npmrc")


def _variable(option: str) -> str | None:
    # npm takes its variables in either case.
    wanted = f"npm_config_{option}"
    return next((value for name, value in os.environ.items() if name.lower() == wanted and value), None)


def _npmrc(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line and not line.lstrip().startswith(("#", ";")))
    return {key.strip(): _expanded(value.strip().strip("\"'")) for key, _, value in pairs}


def _merged(files: dict[str, str]) -> dict[str, Any]:
    return {key: value for key, value in files.items() if not key.endswith(":_authToken")}


def _expanded(value: str) -> str:
    return _VARIABLE.sub(lambda found: os.environ.get(found[1], ""), value)
