from __future__ import annotations

import subprocess
import sys

import pytest

from advisor import __version__
from tests.cli.conftest import Advisor

HEAVY = ("tensorflow", "keras", "optuna", "pandas", "plotly", "sklearn", "skimage", "ai_edge_litert", "scipy", "numpy")


def test_the_version_is_told(advisor: Advisor) -> None:
    assert advisor("--version").out.strip() == f"advisor {__version__}"


@pytest.mark.parametrize("group", [(), ("catalog",), ("devices",), ("data",)])
def test_help_names_every_command_in_a_whole_sentence(advisor: Advisor, group: tuple[str, ...]) -> None:
    commands = advisor(*group, "--help", COLUMNS="80").out.partition("Commands:")[2].partition("Exit codes")[0]
    assert all(line.endswith(".") and not line.endswith("...") for line in commands.split("\n") if line.strip())


def test_without_a_command_the_help_is_shown(advisor: Advisor) -> None:
    said = advisor()
    assert "search" in said.out + said.err
    assert "Exit codes" in said.out + said.err


@pytest.mark.integration
def test_nothing_heavy_is_loaded_at_the_start() -> None:
    code = f"import sys, advisor.cli.main; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_command_is_a_usage_error(advisor: Advisor) -> None:
    assert advisor("serch").code == 2
