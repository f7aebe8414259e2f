"""Devices of clouds are measured beside a search, which goes on with their predictions."""

import asyncio
from dataclasses import replace
from pathlib import Path
from threading import Event

from advisor.core import Evaluation, Provenance, Quantity, Status
from advisor.engine._targets.beside import LATE, BesideSearch
from advisor.store import RunFolder
from tests.builders import evaluation, of_file, present


def test_what_a_cloud_measured_replaces_the_prediction_and_the_rest_keeps_it(tmp_path: Path) -> None:
    run, never = RunFolder.create(tmp_path, "clouds"), Event()
    latency = Quantity(9.0, "ms", Provenance.PREDICTED, 8.0, 10.0, 0.8, source="35 models")
    first, second, third = (replace(of_file(evaluation(name)), latency=latency) for name in ("a", "b", "c"))
    measured = Quantity(5.0, "ms", Provenance.MEASURED, n=3, source="tflite on aihub S24; job j1 of 2026-11-29")

    def wait() -> Evaluation:
        never.wait(30)
        return third

    async def search() -> tuple[str, ...]:
        beside = BesideSearch(run)
        beside.begin("aihub:S24", first, lambda: replace(first, latency=measured))
        beside.begin("aihub:S24", second, lambda: replace(second, status=Status.FAILED, reason="no quota"))
        beside.begin("aihub:S24", third, wait)
        while len(beside.measured) < 2:
            await asyncio.sleep(0.01)
        finishing = asyncio.ensure_future(beside.finish())
        await asyncio.sleep(0)
        finishing.cancel()  # the search may take no longer
        await asyncio.gather(finishing, return_exceptions=True)
        return beside.remarks

    remarks = asyncio.run(search())
    never.set()
    sources = {row.configuration.card: present(row.latency).source for row in run.evaluations()}
    kept = "35 models; not measured: {}".format
    assert sources == {"a": measured.source, "b": kept("no quota"), "c": kept(LATE)}
    assert remarks[0] == "aihub:S24: 1 of 3 files were not measured, and their prediction stays: no quota"
