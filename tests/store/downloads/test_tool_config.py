"""The index as pip's own configuration says it, and the registry as npm's does."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from advisor.store import Unavailable
from advisor.store._downloads.tool_config import _unquote, find_registry, read_index, read_package_index
from tests.builders import CHARACTERS, must_fail
from tests.requirements import skip_or_fail
from tests.tables import read_table

LISTING = read_table(__file__, "texts.yaml")["listing"]


def test_the_sections_that_install_uses_are_merged() -> None:
    found = read_index(LISTING, {})
    assert found.indexes == (
        "https://me:p%40ss@index.example/simple",
        "https://two.example/simple",
        "file:///srv/simple",
    )
    assert found.links == ("/srv/wheels", "/srv/more")
    transport = found.transport
    assert (transport.ca_file, transport.proxy) == ("/etc/company.pem", "http://proxy.example:3128")
    assert transport.trusted_hosts == ("two.example",)
    assert (transport.connect_timeout_s, transport.read_timeout_s) == (15.0, 60.0)
    assert transport.credentials == (("index.example", "me", "p@ss"),)
    assert "p@ss" not in repr(transport)


def test_an_environment_variable_beats_the_files_and_without_any_configuration_the_public_index_is_used() -> None:
    found = read_index(LISTING, {"PIP_INDEX_URL": "https://other.example/simple", "PIP_DEFAULT_TIMEOUT": "5"})
    assert (found.indexes[0], found.transport.read_timeout_s) == ("https://other.example/simple", 60.0)
    found = read_index(LISTING, {"PIP_NO_INDEX": "1"})
    assert (found.indexes, found.links) == ((), ("/srv/wheels", "/srv/more"))
    found = read_index("", {"PIP_DEFAULT_TIMEOUT": "5"})
    assert (found.indexes, found.transport.read_timeout_s) == ((PYPI_SIMPLE_ENDPOINT,), 5.0)


@pytest.mark.integration
def test_what_pip_itself_wrote_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://company.example/simple\n")
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        skip_or_fail("this Python has no pip")
    assert read_package_index().indexes[0] == "https://company.example/simple"


@pytest.fixture
def without_npm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without the program, in an empty folder."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_the_environment_names_the_registry(without_npm: None, monkeypatch: pytest.MonkeyPatch) -> None:
    must_fail(Unavailable, "npm is not installed", find_registry, "tiny")
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "https://company.example/npm/")
    assert find_registry("tiny")[0] == "https://company.example/npm"


def test_a_scope_may_have_its_registry(without_npm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPANY_TOKEN", "t0ken")
    (tmp_path / ".npmrc").write_text(
        "registry=https://public.example/\n@team:registry=https://company.example/npm/\n"
        "//company.example/npm/:_authToken=${COMPANY_TOKEN}\n"
    )
    assert find_registry("tiny")[0] == "https://public.example"
    url, transport = find_registry("@team/tiny")
    assert url == "https://company.example/npm"
    assert transport.tokens == (("//company.example/npm/", "t0ken"),)
    assert "t0ken" not in repr(transport)


@given(st.text(CHARACTERS))
def test_a_value_is_read_as_pip_prints_it(value: str) -> None:
    assert _unquote(repr(value)) == value


@pytest.mark.parametrize("value", ["60", "None", "'open", "", "'", r"'\x'"])
def test_what_is_no_literal_of_text_stays(value: str) -> None:
    assert _unquote(value) == value
