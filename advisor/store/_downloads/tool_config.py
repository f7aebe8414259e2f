"""Find the package index in the user's pip configuration, and the registry in that of npm.

``origins.py`` asks, so that a company's index, proxy and certificates hold here, too.
"""

import contextlib
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from advisor.core import StageError, UsageError
from advisor.isolation import run_program
from advisor.store._downloads.files import Unavailable
from advisor.store._downloads.transport import Transport, read_credentials

_LINE = re.compile(r"^(?P<section>[^.\s=]+)\.(?P<key>[a-z-]+)=(?P<value>.*)$")
# pip's own order: a later one wins. An environment variable beats every file.
_SECTIONS = ("global", "install", "download", ":env:")
_QUOTED = re.compile(r"(?P<quote>['\"])(?P<text>.*)(?P=quote)", re.DOTALL)
_DEFAULT_TIMEOUT_S = 15.0
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# The environment on which the answers of pip and npm depend, beside their files.
_RELEVANT = ("pip_", "npm_config_", "home", "xdg_", "path")


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """The places of packages, the indexes first."""

    indexes: tuple[str, ...]  # roots as of PEP 503
    links: tuple[str, ...]  # folders, or pages of links
    transport: Transport  # how to reach them


def read_package_index() -> PackageIndex:
    """Return the index that ``pip install`` would use now, by its configuration."""
    options = ["config", "list", "--no-color", "--disable-pip-version-check"]
    return read_index(_capture_output([sys.executable, "-P", "-m", "pip", *options]), os.environ)


def read_index(listing: str, environment: Mapping[str, str]) -> PackageIndex:
    """Read a ``pip config list`` and the PIP_* variables into an index."""
    from pypi_simple import PYPI_SIMPLE_ENDPOINT

    lines = []
    for line in map(_LINE.match, listing.splitlines()):
        if line:
            lines.append(line)
    options: dict[str, str] = {}
    for section in _SECTIONS:
        for line in lines:
            if line["section"] == section:
                options[line["key"]] = _unquote(line["value"])
    # The same that pip lists under ':env:'; read here too, for a Python without pip.
    for name, value in environment.items():
        if name.startswith("PIP_") and value:
            options[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    indexes: tuple[str, ...] = ()
    if options.get("no-index", "").strip().lower() not in ("1", "true", "yes", "on", "t", "y"):
        indexes = (
            options.get("index-url") or PYPI_SIMPLE_ENDPOINT,
            *options.get("extra-index-url", "").split(),
        )
    links = tuple(options.get("find-links", "").split())
    seconds = _DEFAULT_TIMEOUT_S
    with contextlib.suppress(ValueError):
        seconds = float(
            options.get("timeout") or options.get("default-timeout") or _DEFAULT_TIMEOUT_S
        )
    transport = Transport(
        proxy=options.get("proxy", ""),
        ca_file=options.get("cert", ""),
        client_cert=options.get("client-cert", ""),
        trusted_hosts=tuple(options.get("trusted-host", "").split()),
        connect_timeout_s=min(seconds, _DEFAULT_TIMEOUT_S),
        read_timeout_s=seconds,
        credentials=read_credentials((*indexes, *links)),
    )
    return PackageIndex(indexes, links, transport)


def _unquote(value: str) -> str:
    """Return the text of a Python literal, as pip prints it.

    ``ast.literal_eval`` is not used:
    in several threads of CPython 3.11 it may end with a SystemError.
    """
    with contextlib.suppress(UnicodeDecodeError):
        quoted = _QUOTED.fullmatch(value)
        if quoted:
            return quoted["text"].encode("latin-1", "backslashreplace").decode("unicode_escape")
    return value


def find_registry(package: str) -> tuple[str, Transport]:
    """Return the root URL of the registry of a package, and how to reach it.

    A scope, as in ``@scope/package``, may have a registry of its own.
    """
    # npm prints no secrets, so tokens can only be read where they are written.
    user_config = _read_npm_variable("userconfig")
    user_file = Path(os.path.expanduser(user_config or "~/.npmrc"))  # noqa: PTH111 -- an unknown user is no error
    files = _read_npmrc(user_file) | _read_npmrc(Path.cwd() / ".npmrc")
    tokens = []
    options: dict[str, Any] = {}
    for key, value in files.items():
        if key.endswith(":_authToken"):
            tokens.append((key.removesuffix(":_authToken"), value))
        else:
            options[key] = value
    options |= _read_npm_options()
    scope = ""
    if package.startswith("@"):
        scope = package.partition("/")[0]
    url = str(
        options.get(f"{scope}:registry")
        or _read_npm_variable("registry")
        or options.get("registry")
        or ""
    )
    if not url:
        raise Unavailable(
            "npm is not installed, and no registry is named by npm_config_registry or an .npmrc"
        )
    lax = str(options.get("strict-ssl", True)).lower() == "false"
    trusted_hosts = (urlsplit(url).hostname or "",) if lax else ()
    transport = Transport(
        proxy=str(options.get("https-proxy") or options.get("proxy") or ""),
        ca_file=str(options.get("cafile") or ""),
        trusted_hosts=trusted_hosts,
        credentials=read_credentials((url,)),
        tokens=tuple(tokens),
    )
    return url.rstrip("/"), transport


def _read_npm_options() -> dict[str, Any]:
    npm = shutil.which("npm")
    listed = None
    with contextlib.suppress(ValueError):
        listed = None
        if npm:
            listed = json.loads(_capture_output([npm, "config", "list", "--json"]))
    if isinstance(listed, dict):
        return {key: value for key, value in listed.items() if value is not None}
    return {}


def _read_npm_variable(option: str) -> str | None:
    # npm takes its variables in either case.
    wanted = f"npm_config_{option}"
    values = []
    for name, value in os.environ.items():
        if name.lower() == wanted:
            values.append(value)
    return next(filter(None, values), None)


def _read_npmrc(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    options = {}
    for line in lines:
        key, separator, value = line.partition("=")
        is_comment = line.lstrip().startswith(("#", ";"))
        if separator and not is_comment:
            plain = value.strip().strip("\"'")
            options[key.strip()] = _VARIABLE.sub(lambda match: os.environ.get(match[1], ""), plain)
    return options


def _capture_output(command: Sequence[str]) -> str:
    """Return what a command prints, empty if it fails; it runs once for each environment."""
    variables = []
    for name, value in os.environ.items():
        if name.lower().startswith(_RELEVANT):
            variables.append((name, value))
    return _run_once(tuple(command), *sorted(variables))


@lru_cache(maxsize=16)
def _run_once(command: tuple[str, ...], *_environment: tuple[str, str]) -> str:
    with contextlib.suppress(UsageError, StageError):
        done = run_program(command, timeout_s=60)
        return done.stdout if done.status == 0 else ""
    return ""
