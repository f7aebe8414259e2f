"""A batch system on this machine."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from advisor.integrations import slurm
from advisor.integrations.slurm import SlurmExecutor, read_settings
from tests.integrations.slurm import standin

Start = Callable[..., SlurmExecutor]


@pytest.fixture
def batch_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, starts_processes: None) -> Path:
    """Return the folder of a batch system whose programs are on the path."""
    folder = tmp_path / "slurm"
    for name, value in standin.install(folder).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(slurm.STATE_EVERY_S, "slurm", 0.3)
    return folder


@pytest.fixture
def start(batch_system: Path, tmp_path: Path) -> Iterator[Start]:
    """Start executors with settings of jobs; they are closed in the end."""
    started = list[SlurmExecutor]()

    def begin(workers: int = 1, **jobs: Any) -> SlurmExecutor:
        file = tmp_path / "settings.yaml"
        file.write_text("jobs:\n" + "".join(f"  {name}: {value}\n" for name, value in {"mem_gb": 4, **jobs}.items()))
        started.append(SlurmExecutor(read_settings(str(file)), workers))
        return started[-1]

    yield begin
    for each in started:
        each.close()
