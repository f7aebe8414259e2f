"""Leave passwords and tokens out of addresses, for all that is kept or shown.

The request, the manifest and the log of a run, the names of copies in the cache, and every message
pass through :func:`without_password` (``docs/security.md``). A text must pass here before it is
written or printed, not after.
"""

import re
from collections.abc import Mapping
from typing import Any

_SCHEME = r"[a-z][a-z0-9+.-]{0,30}"  # bounded: a text of a million letters takes no longer
_AS_PATH = r"https?|s?ftp|s3|gs|ssh|postgresql|postgres"
"""Schemes of addresses that were read as paths, and have one of their slashes left."""

_ADDRESS = re.compile(
    rf"({_SCHEME}(?=://)|\b(?:{_AS_PATH})(?=:/)):/{{1,2}}((?:(?!{_SCHEME}://)[^\n])*)",
    re.IGNORECASE,
)
"""An address, up to the end of its line or to the next address."""

# Without //, as in a typing error.
_LOGIN = re.compile(r"(?<![^\s:='\"])([^\s:/@]+):[^\s:/@]+@(?=[\w\[])")
_PORT = re.compile(r":\d{1,5}\W*$")
_NAMING_WORDS = "passw|passfile|token|secret|signature|credential|api_?key|access_?key"
_NAMES = rf"[\w.-]{{0,30}}(?:{_NAMING_WORDS})[\w.-]{{0,30}}|sig"
"""Names of parameters whose values are secrets."""

_SECRET = re.compile(rf"([?&#;])(?:(?:{_NAMES})=[^&#\s]*(?:&|(?![^&#\s])))+", re.IGNORECASE)
_SECRET_WITH_SPACE = re.compile(
    rf"([?&#;])(?:(?:{_NAMES})=[^&#\n]*(?:&|(?![^&#\n])))+", re.IGNORECASE
)
"""Such parameters of a web address, and of others, whose values may hold spaces."""


def without_password(text: str) -> str:
    """Return ``text`` without the secrets of the addresses in it, for all that is kept or shown.

    Passwords and parameters such as ``token=`` are left out;
    of a web address the user too, who may be a token.
    """
    shown = _ADDRESS.sub(_strip_secrets, text) if ":/" in text else text
    return _LOGIN.sub(r"\1@", shown) if "@" in shown else shown


def without_passwords(value: Any) -> Any:
    """Return a JSON value whose texts have no secrets, see :func:`without_password`."""
    if isinstance(value, Mapping):
        return {key: without_passwords(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return list(map(without_passwords, value))
    # A name of an enumeration becomes a plain text, which YAML can hold.
    return without_password(str(value)) if isinstance(value, str) else value


def _strip_secrets(address: re.Match[str]) -> str:
    """Return an address without secrets.

    A password may hold a space, ``/``, ``?`` or ``@`` as it is, and then ends at the last ``@``. A
    colon before a port begins no password in a web address, which may have an ``@`` in its path.
    """
    scheme, rest = address.groups()
    web = scheme.lower() in ("http", "https")
    authority = re.split(r"[\s/?#]", rest, maxsplit=1)[0]
    end = authority.rfind("@")
    if ":" in authority and (not web or (end < 0 and not _PORT.search(authority))):
        end = rest.rfind("@")
    user = "" if web or end < 0 else rest[:end].partition(":")[0] + "@"
    secret = _SECRET if web else _SECRET_WITH_SPACE
    return f"{scheme}://{user}{secret.sub(_keep_separator, rest[end + 1 :])}"


def _keep_separator(parameters: re.Match[str]) -> str:
    """Return the separator that is left where parameters were removed."""
    return parameters[1] if parameters[0].endswith("&") else ""
