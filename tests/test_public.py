"""What ``import advisor`` offers."""

import subprocess
import sys

import pytest

import advisor

ROOMS = ("catalog", "devices")


@pytest.mark.integration
@pytest.mark.parametrize(
    "first", ["", "import advisor.engine.run, advisor.reporting.answer, advisor.exporting.bundle, advisor.cli.main; "]
)
def test_every_public_function_is_there_whatever_was_imported_before(first: str) -> None:
    code = f"{first}import advisor; print([name for name in advisor.__all__ if not callable(getattr(advisor, name))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(["__version__", *ROOMS])


@pytest.mark.integration
@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("print(advisor.catalog.show('squeezenet_1.1_227').name, advisor.devices.show('host').name)",
         "squeezenet_1.1_227 host"),
        ("import sys; print(*sorted(name for name in sys.modules if name.startswith('advisor')))",
         "advisor advisor.version"),
    ],
)  # fmt: skip
def test_rooms_are_reached_from_the_package_and_imported_only_then(code: str, shown: str) -> None:
    command = [sys.executable, "-c", f"import advisor; {code}"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == shown


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'serch'"):
        _ = advisor.serch  # type: ignore[attr-defined]


@pytest.mark.parametrize("function", [advisor.search, advisor.plan], ids=["search", "plan"])
def test_an_unknown_option_is_refused(function: object) -> None:
    assert callable(function)
    with pytest.raises(TypeError, match="unexpected keyword argument 'buget'"):
        function(buget="50ms")
