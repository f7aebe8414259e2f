"""CSVs of latencies: what is refused, and that writing reads back."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.core.errors import SeveralErrors, UsageError
from advisor.devices.profiles.measurements import PRECISIONS, Measurement, read_measurements, write_measurements

HEADER = "target,model,precision,latency_ms,statistic,flag\n"
GOOD = "cpu,net,int8,12.5,median,\n"


def read(tmp_path: Path, text: str) -> tuple[Measurement, ...]:
    path = tmp_path / "gadget.csv"
    path.write_text(text)
    return read_measurements(path, ["cpu"])


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("cpu,net,int8,0,median,", "is not a latency"),
        ("cpu,net,int8,1e9,median,", "is not a latency"),
        ("cpu,net,int8,-3,median,", "is not a latency"),
        ("cpu,net,int8,nan,median,", "is not a latency"),
        ("cpu,net,int8,inf,median,", "is not a latency"),
        ("cpu,net,int8,12 ms,median,", "is not a number"),
        ("gpu,net,int8,12,median,", "unknown target 'gpu'"),
        ("cpu,net,int4,12,median,", "unknown precision 'int4'"),
        ("cpu,net,int8,12,medium,", "did you mean 'median'"),
        ("cpu,net,int8,12,median,spikey", "did you mean 'spiky'"),
        ("cpu, ,int8,12,median,", "the model has no name"),
        ("cpu,net,int8,12", "more or fewer fields"),
        ("cpu,net,int8,12,median,,extra", "more or fewer fields"),
    ],
)
def test_a_bad_row_is_refused_with_file_and_line(tmp_path: Path, row: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        read(tmp_path, f"{HEADER}{GOOD}{row}\n")
    assert f"{tmp_path}/gadget.csv:3:" in caught.value.message


@pytest.mark.parametrize(
    ("version", "accepted"),
    [
        ("2.17.0", True),
        ("2", True),
        ("1.30.0+qairt2.50.0", True),
        ("xnnpack2022-02-08+armhf", True),
        ("2.18.0-dev20240710", True),
        ("unstated", True),
        ("", True),
        ("latest", False),
        ("tflite 2.17", False),
        ("arm64", False),
    ],
)
def test_a_runtime_version_is_a_version(tmp_path: Path, version: str, accepted: bool) -> None:
    text = f"target,model,precision,latency_ms,runtime_version\ncpu,net,int8,12.5,{version}\n"
    if accepted:
        assert read(tmp_path, text)[0].runtime_version == version
        return
    with pytest.raises(UsageError, match=f"gadget.csv:2: runtime_version '{version}' is not a version"):
        read(tmp_path, text)


def test_all_bad_rows_are_reported_at_once(tmp_path: Path) -> None:
    rows = ["cpu,net,int8,-3,median,", "cpu,other,int8,3,median,", "cpu,net,int8,3,meen,", GOOD.strip()]
    with pytest.raises(SeveralErrors) as caught:
        read(tmp_path, HEADER + GOOD + "\n".join(rows) + "\n")
    assert [part.message.split(": ")[0].rsplit(":")[-1] for part in caught.value.parts] == ["3", "5", "6"]
    assert pickle.loads(pickle.dumps(caught.value)).message == caught.value.message


def test_of_many_bad_rows_the_first_are_shown(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, HEADER + "cpu,net,int8,-3,median,\n" * 50)
    assert len(caught.value.message.splitlines()) == SeveralErrors.SHOWN + 2
    assert caught.value.message.endswith("... and 30 more")


def test_the_same_figure_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is already in line 2"):
        read(tmp_path, HEADER + GOOD + GOOD)


@pytest.mark.parametrize(
    ("header", "words"),
    [("target,model,precision,latency\n", "did you mean 'latency_ms'"), ("target,model,precision\n", "is missing")],
)
def test_a_bad_header_is_refused(tmp_path: Path, header: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read(tmp_path, header)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "gadget.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        read_measurements(path, ["cpu"])


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1)
rows = st.builds(
    Measurement,
    target=st.just("cpu"),
    model=names,
    precision=st.sampled_from(PRECISIONS),
    latency_ms=st.floats(1e-3, 1e6).map(lambda value: float(f"{value:.6g}")),
    peak_memory_bytes=st.none() | st.integers(0, 2**40),
    source_repo=names,
    job=names,
    input_side=st.none() | st.integers(1, 1024),
    graph=names,
    runtime_version=st.sampled_from(["", "unstated", "2.17.0", "qairt2.50.0"]),
)


@given(st.lists(rows, unique_by=lambda row: (row.model, row.precision, row.job)))
def test_what_is_written_reads_back(tmp_path_factory: pytest.TempPathFactory, measurements: list[Measurement]) -> None:
    path = tmp_path_factory.mktemp("csv") / "gadget.csv"
    write_measurements(path, measurements)
    assert list(read_measurements(path, ["cpu"])) == measurements
