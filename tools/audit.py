"""Look up the pinned dependencies in the advisory database of Python packages, with pip-audit.

``python -m tools.audit`` prints each known vulnerability and ends with 1 if there is any. Where no
advisory database (OSV) can be reached, it says so and ends with 0: a machine without internet can
still lint. Options are those of pip-audit.
"""

import json
import subprocess
import sys
from pathlib import Path

PINNED = Path(__file__).parent.parent / "locks" / "dev.txt"
"""Names, versions and hashes of all dependencies, those of development too."""

_AUDIT = (
    "--disable-pip",
    "--require-hashes",
    "--vulnerability-service",
    "osv",
    "--progress-spinner",
    "off",
)
_UNREACHABLE = ("ConnectionError", "connect", "Timeout", "timed out", "HTTPError")


def main(arguments: list[str], pinned: Path = PINNED) -> int:
    """Return 1 if a dependency has a known vulnerability or the audit failed, else 0."""
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "-r",
        str(pinned),
        *_AUDIT,
        "--format",
        "json",
        *arguments,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        dependencies = json.loads(ended.stdout)["dependencies"]
    except (ValueError, KeyError):
        reason = (ended.stderr.strip().splitlines() or ["no output"])[-1]
        if any(word in reason for word in _UNREACHABLE):
            print("audit: not done, because no advisory database can be reached")
            return 0
        print(f"audit: pip-audit failed: {reason}", file=sys.stderr)
        return 1
    vulnerabilities = [
        (dependency, known) for dependency in dependencies for known in dependency.get("vulns", ())
    ]
    for dependency, known in vulnerabilities:
        fixed = (
            f"fixed in {', '.join(known['fix_versions'])}"
            if known["fix_versions"]
            else "no fix yet"
        )
        print(
            f"{dependency['name']} {dependency['version']}: {known['id']} ({fixed})",
            file=sys.stderr,
        )
    print(
        f"audit: {len(dependencies)} dependencies, known vulnerabilities: {len(vulnerabilities)}"
    )
    return int(bool(vulnerabilities))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
