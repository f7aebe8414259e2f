"""What ``pip install .`` gives: the command, with catalogues and profiles inside."""

import email
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from advisor import __version__
from tests.tables import read_table
from tools.long_description import described
from tools.schemas import schemas

DRAW_FEW = read_table(__file__, "texts.yaml")["draw_few"]
"""Draws images of a demonstration, a quarter of all, which a search then finds drawn."""


@pytest.fixture(scope="module")
def wheel(starts_processes: None, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(project)]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("ondevice_advisor-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and its command, found before this environment, which lends what it depends on."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-compile", "--target"]
    subprocess.run([*pip, str(folder), str(wheel)], check=True, capture_output=True)
    return folder


def run(folder: Path, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "ADVISOR_CACHE_DIR": str(cwd / "cache")}
    return subprocess.run(list(command), cwd=cwd, env=environment, capture_output=True, text=True, timeout=540)


def test_the_wheel_holds_every_shipped_file(wheel: Path, project: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    held = set(archive.namelist())
    for folder in ("catalogs", "device_profiles"):
        for path in (project / folder).rglob("*"):
            if path.is_file():
                assert f"advisor/_data/{path.relative_to(project)}" in held
    assert "advisor/_data/plotly.min.js" in held
    for name, text in schemas().items():
        assert archive.read(f"advisor/_data/schemas/{name}").decode() == text


def test_a_request_file_names_the_schema_in_the_wheel(installed: Path, tmp_path: Path) -> None:
    run(installed, str(installed / "bin" / "advisor"), "init", "--budget", "50ms", cwd=tmp_path)
    line = (tmp_path / "advisor.yaml").read_text(encoding="utf-8").partition("\n")[0]
    named = tmp_path / line.partition("$schema=")[2]
    assert named.resolve() == installed / "advisor/_data/schemas/request.schema.json"
    said = run(installed, str(installed / "bin" / "advisor"), "explain", "p90", cwd=tmp_path)
    assert said.stdout.endswith("More: the documentation, what is measured (benchmark.md)\n")  # the wheel has no docs/


def test_the_long_description_and_the_metadata_work_outside_the_repository(wheel: Path, project: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Version"] == __version__
    assert "Programming Language :: Python :: 3.14" in metadata.get_all("Classifier", [])
    assert [line for line in metadata.get_all("Requires-Dist", []) if "uvicorn" in line and "'all'" in line]
    text = metadata.get_payload()
    assert "It retrains published networks on your images" in text
    assert re.findall(r"\]\((?!https?://)[^)]*\)", text) == []  # no link to a file beside it
    linked = described((project / "README.md").read_text(encoding="utf-8"), "https://example.com/x")
    assert "](https://example.com/x/blob/main/docs/devices.md#add-a-device-of-each-kind)" in linked
    assert "](https://example.com/x/raw/main/docs/images/report.png)" in linked
    assert re.findall(r"\]\((?!https?://)[^)]*\)", linked) == []


def test_a_demo_from_the_wheel_finds_its_catalogue_and_reaches_the_weights(installed: Path, tmp_path: Path) -> None:
    where = run(installed, sys.executable, "-c", DRAW_FEW, cwd=tmp_path)
    assert Path(where.stdout.split()[0]).is_relative_to(installed)
    search = (str(installed / "bin" / "advisor"), "search", "--offline", "--demo")
    said = run(installed, *search, "--candidates", "squeezenet_1.1_227", cwd=tmp_path)
    assert (tmp_path / "runs" / "demo-images" / "ABOUT.txt").is_file()
    assert said.returncode == 2
    assert "the weights of 'squeezenet_1.1_227' are not available" in said.stderr


@pytest.mark.integration
def test_nobody_is_told_to_install_another_project_of_that_name(project: Path) -> None:
    texts = [project / "README.md", project / "CONTRIBUTING.md"]
    for folder, pattern in (("advisor", "*.py"), ("benchmarks", "*.py"), ("docs", "*.md")):
        texts += (project / folder).rglob(pattern)
    wrong = re.compile(r"(?<![\w-])advisor\[|(pip|uv tool|pipx) install '?advisor\b")
    assert not [path.name for path in texts if wrong.search(path.read_text(encoding="utf-8"))]


@pytest.mark.integration
def test_no_message_names_a_page_that_the_wheel_lacks(project: Path) -> None:
    named = re.compile(r"(?<!``)\bdocs/[\w/-]+\.md")  # in ``, docstrings and comments name it for readers of the source
    texts = (path for path in (project / "advisor").rglob("*") if path.suffix in (".py", ".j2", ".yaml", ".js"))
    assert not [path.name for path in texts if named.search(path.read_text(encoding="utf-8"))]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", [("uv", "tool", "install"), ("pipx", "install"), ("uvx", "--from")])
def test_the_checkout_installs_as_a_tool(way: tuple[str, ...], project: Path, tmp_path: Path) -> None:
    if shutil.which(way[0]) is None:
        pytest.skip(f"{way[0]} is not installed")
    bin_folder = tmp_path / "bin"
    own = {"UV_TOOL_DIR": tmp_path / "tools", "UV_TOOL_BIN_DIR": bin_folder, "PIPX_HOME": tmp_path / "pipx"}
    own |= {"PIPX_BIN_DIR": bin_folder, "PIPX_MAN_DIR": tmp_path / "man"}
    environment = {**os.environ, **{name: str(path) for name, path in own.items()}}
    environment.pop("PYTHONPATH", None)
    command = [*way, str(project)] if way[0] != "uvx" else [*way, str(project), "advisor", "--version"]
    said = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    if way[0] != "uvx":
        told = [str(bin_folder / "advisor"), "--version"]
        said = subprocess.run(told, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert said.stdout.startswith("advisor ")
