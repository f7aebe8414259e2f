"""Find the package index in the user's pip configuration: indexes, folders, proxy, certificates."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from advisor.catalog.weights.network.transport import Transport, credentials_of

_LINE = re.compile(r"^(?P<section>[^.\s=]+)\.(?P<key>[a-z-]+)=(?P<value>.*)$")
# pip's own order: a later one wins. An environment variable beats every file.
_SECTIONS = ("global", "install", "download", ":env:")
_DEFAULT_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """The places of packages: ``indexes`` (PEP 503 roots) first, then ``links`` (folders or pages of links)."""

    indexes: tuple[str, ...]
    links: tuple[str, ...]
    transport: Transport


def package_index() -> PackageIndex:
    """Return what ``pip install`` would use now, read from ``pip config list`` and the environment."""
    return interpret(_listing(_settings(os.environ)), os.environ)


def interpret(listing: str, environment: Mapping[str, str]) -> PackageIndex:
    """Read a ``pip config list`` and the PIP_* variables into an index."""
    options = _options(listing) | _from_environment(environment)
    indexes: tuple[str, ...] = ()
    if not _true(options.get("no-index", "")):
        indexes = (options.get("index-url") or _default_index(), *options.get("extra-index-url", "").split())
    links = tuple(options.get("find-links", "").split())
    return PackageIndex(indexes, links, _transport(options, (*indexes, *links)))


def _transport(options: Mapping[str, str], urls: tuple[str, ...]) -> Transport:
    seconds = _seconds(options.get("timeout") or options.get("default-timeout"))
    return Transport(
        proxy=options.get("proxy", ""),
        ca_file=options.get("cert", ""),
        client_cert=options.get("client-cert", ""),
        trusted_hosts=tuple(options.get("trusted-host", "").split()),
        connect_timeout_s=min(seconds, _DEFAULT_TIMEOUT_S),
        read_timeout_s=seconds,
        credentials=credentials_of(urls),
    )


def _settings(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    # What pip's answer depends on beside its files, which do not change within a run.
    return tuple(sorted(pair for pair in environment.items() if pair[0].startswith(("PIP_", "HOME", "XDG_"))))


@lru_cache(maxsize=8)
def _listing(_settings: tuple[tuple[str, str], ...]) -> str:
    command = [sys.executable, "-m", "pip", "config", "list", "--no-color", "--disable-pip-version-check"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _options(listing: str) -> dict[str, str]:
    by_section: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listing.splitlines():
        matched = _LINE.match(line)
        if matched and matched["section"] in by_section:
            by_section[matched["section"]][matched["key"]] = _unquoted(matched["value"])
    merged: dict[str, str] = {}
    for section in _SECTIONS:
        merged |= by_section[section]
    return merged


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    # The same that pip lists under ':env:'; read here too, for a Python without pip.
    return {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in environment.items()
        if name.startswith("PIP_") and value
    }


def _unquoted(value: str) -> str:
    try:
        return str(ast.literal_eval(value))
    except (ValueError, SyntaxError):
        return value


def _default_index() -> str:
    from pypi_simple import PYPI_SIMPLE_ENDPOINT

    return PYPI_SIMPLE_ENDPOINT


def _true(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes", "on", "t", "y")


def _seconds(text: str | None) -> float:
    try:
        return float(text) if text else _DEFAULT_TIMEOUT_S
    except ValueError:
        return _DEFAULT_TIMEOUT_S
