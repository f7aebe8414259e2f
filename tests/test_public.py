"""What ``import advisor`` offers."""

import subprocess
import sys
from typing import Any

import pytest

import advisor
from advisor.api._python import in_python

ROOMS = ("catalog", "devices")


PLAIN = "print([name for name in advisor.__all__ if not callable(getattr(advisor, name))])"
ALONE = """
import sys, advisor
print(*sorted(name for name in sys.modules if name.startswith("advisor")))
print(advisor.catalog.show("squeezenet_1.1_227").name, advisor.devices.show("host").name)
"""
AFTER = "import advisor.engine._run, advisor.reporting._answer, advisor.exporting._bundle, advisor.cli._main, advisor\n"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("code", "said"), [(ALONE, ["advisor advisor.version", "squeezenet_1.1_227 host"]), (AFTER, [])], ids=["", "after"]
)
def test_all_is_there_whatever_was_imported_before_and_rooms_are_imported_when_reached(
    code: str, said: list[str]
) -> None:
    done = subprocess.run([sys.executable, "-c", code + PLAIN], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [*said, str(["__version__", *ROOMS])]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'serch'"):
        _ = advisor.serch  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"budget": 50}, "budget: '50' has no unit\nhint: did you mean budget=\"50ms\"? units: us, ms, s"),
        ({"min_accuracy": 2}, "min_accuracy: '2' has no unit\nhint: did you mean min_accuracy=\"2%\"? units: %"),
        ({"extend": "5min"}, 'extend continues a run, and resume names none\nhint: add resume="runs/latest"'),
    ],
)
def test_errors_of_the_functions_name_arguments_and_have_the_hint(options: dict[str, Any], said: str) -> None:
    with pytest.raises(advisor.UsageError) as raised:
        advisor.search(**options)
    assert str(raised.value) == said
    assert raised.value._render_traceback_() == f"UsageError: {said}".splitlines()
    assert raised.value.message.startswith("--")  # as commands say it
    assert in_python("resume it: advisor search --resume RUN") == "resume it: advisor search --resume RUN"
