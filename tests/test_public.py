"""What ``import advisor`` offers."""

import subprocess
import sys

import pytest

import advisor
from advisor._python import in_python
from tests.tables import with_cases

ROOMS = ("catalog", "devices")

PLAIN = "print([name for name in advisor.__all__ if not callable(getattr(advisor, name))])"
ALONE = """
import sys, advisor
print(*sorted(name for name in sys.modules if name.startswith("advisor")))
print(advisor.catalog.show("squeezenet_1.1_227").name, advisor.devices.show("host").name)
"""
AFTER = "import advisor.engine._run, advisor.reporting._bundle.bundle, advisor.cli._main, advisor\n"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("code", "said"), [(ALONE, ["advisor advisor.version", "squeezenet_1.1_227 host"]), (AFTER, [])], ids=["", "after"]
)
def test_all_is_there_whatever_was_imported_and_rooms_are_imported_when_reached(code: str, said: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", code + PLAIN], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [*said, str(["__version__", *ROOMS])]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'serch'"):
        _ = advisor.serch  # type: ignore[attr-defined]


@with_cases
def test_errors_of_the_functions_name_arguments_and_have_the_hint(call: str, said: str) -> None:
    with pytest.raises(advisor.UsageError) as raised:
        eval(f"advisor.{call}", {"advisor": advisor})
    assert said in str(raised.value)
    assert in_python(str(raised.value)) == str(raised.value)
    assert "\nhint: " in str(raised.value)
    assert raised.value._render_traceback_() == f"UsageError: {raised.value}".splitlines()


@with_cases
def test_options_in_a_text_become_arguments_with_values_as_python_writes_them(text: str, said: str) -> None:
    assert in_python(text) == said
