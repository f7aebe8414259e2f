"""Programs that are published without a hash: fetched once, kept with their hash, never over a line without proof."""

from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.store import FetchOptions, Program
from tests.builders import must_fail
from tests.makers.servers import Answer, Shelf
from tests.tables import with_cases

pytestmark = pytest.mark.integration  # a client reads the proxy and the certificates from pip's settings

TOOL = b"#!/bin/sh\n"


def test_the_first_copy_is_kept_and_used(shelf: Shelf, tmp_path: Path) -> None:
    url = shelf.put("/latest/tool", Answer(TOOL))
    first = Program.fetch(url, FetchOptions(cache=tmp_path))
    shelf.put("/latest/tool", Answer(b"another release"))
    second = Program.fetch(url, FetchOptions(cache=tmp_path, offline=True))
    assert (second, first.path.read_bytes()) == (first, TOOL)
    first.path.write_bytes(b"changed by somebody")
    assert Program.fetch(url, FetchOptions(cache=tmp_path)).path.read_bytes() == b"another release"


def test_a_mirror_stands_for_the_address(shelf: Shelf, tmp_path: Path) -> None:
    shelf.put("/company/tool", Answer(TOOL))
    mirrored = Program.fetch("https://localhost:1/tool", FetchOptions(cache=tmp_path, mirror=f"{shelf.url}/company"))
    (tmp_path / "tool").write_bytes(TOOL)
    beside = Program.fetch("https://localhost:1/tool", FetchOptions(cache=tmp_path / "none", mirror=tmp_path))
    assert (mirrored.path.read_bytes(), beside.path) == (TOOL, tmp_path / "tool")


@with_cases
def test_a_missing_program_is_refused_with_its_address(tmp_path: Path, url: str, offline: bool, words: str) -> None:
    refused = must_fail(UsageError, words, Program.fetch, url, FetchOptions(cache=tmp_path, offline=offline))
    assert url in refused.hint
