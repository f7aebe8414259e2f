"""A reader that closes the pipe early, such as head, does not change the exit code."""

import subprocess
import sys

import pytest

from tests.places import PROJECT


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("catalog", "list"), 0), (("explain", "--json"), 0), (("catalog", "list", "--only", "x"), 2)],
)
def test_the_exit_code_is_that_of_the_command(starts_processes: None, arguments: tuple[str, ...], code: int) -> None:
    command = [sys.executable, "-m", "advisor", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=PROJECT) as process:
        process.stdout.close()
        errors = process.stderr.read().decode()
        assert process.wait() == code, errors
    assert "Traceback" not in errors
    assert "BrokenPipe" not in errors
