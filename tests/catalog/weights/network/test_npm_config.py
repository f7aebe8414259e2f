"""The registry as npm's own configuration says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.catalog.weights.digest import Unavailable
from advisor.catalog.weights.network.npm_config import registry_for


@pytest.fixture(autouse=True)
def without_npm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without the program, in an empty folder."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_without_npm_and_without_a_name_the_reason_is_given() -> None:
    with pytest.raises(Unavailable, match="npm is not installed"):
        registry_for("tiny")


def test_the_environment_names_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "https://company.example/npm/")
    assert registry_for("tiny").url == "https://company.example/npm"


def test_a_scope_may_have_its_own_registry_and_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPANY_TOKEN", "t0ken")
    (tmp_path / ".npmrc").write_text(
        "registry=https://public.example/\n@team:registry=https://company.example/npm/\n"
        "//company.example/npm/:_authToken=${COMPANY_TOKEN}\n"
    )
    assert registry_for("tiny").url == "https://public.example"
    scoped = registry_for("@team/tiny")
    assert scoped.url == "https://company.example/npm"
    assert scoped.transport.tokens == (("//company.example/npm/", "t0ken"),)
    assert "t0ken" not in repr(scoped)
