"""Times of operators from timed kernels, and of networks as their sum."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from advisor.catalog.catalogue import load_catalogue
from advisor.core.errors import UsageError
from advisor.devices.kernels.timing import design
from advisor.devices.latency.network_times import OPERATORS_FILE, NetworkTimes, model_operators, write_operators
from advisor.devices.latency.operator_times import OperatorTimes
from advisor.isolation import ChildPool
from advisor.tflite.model import read
from advisor.tflite.surgery import select_output
from advisor.tflite.work import CONVOLUTION, DENSE, DEPTHWISE, Work, counted, works_of


def microseconds(work: Work) -> float:
    """A device that computes in tiles of 4 rows and 8 columns, and starts an operator in half a microsecond."""
    rows, columns = math.ceil(work.pixels / 4) * 4, math.ceil(work.channels / 8) * 8
    if work.kind == CONVOLUTION and work.pixels > 1:
        return 0.5 + rows * columns * work.depth * work.taps / 2e4 + work.written / 1e4
    if work.kind == DEPTHWISE:
        return 0.5 + work.pixels * columns * work.taps / 5e3
    if work.kind == DENSE or work.kind == CONVOLUTION:
        return 0.5 + work.weights / 1e4
    return 0.5 + (work.written * work.taps if work.taps > 1 else work.written + work.read) / 1e4


@pytest.fixture(scope="module")
def times() -> OperatorTimes:
    return OperatorTimes((work, microseconds(work)) for work in design())


@pytest.mark.parametrize(
    "work",
    [
        Work(CONVOLUTION, 196, 120, 72, read=196 * 72),
        Work(CONVOLUTION, 49, 104, 32, 9, read=49 * 32),
        Work(DEPTHWISE, 784, 104, 1, 9, 1, 784 * 104),
        Work(DENSE, 1, 500, 700, read=700),
        Work("ADD", 196, 300, read=117600),
    ],
)
def test_an_operator_that_was_not_timed_takes_what_its_parts_take(times: OperatorTimes, work: Work) -> None:
    total, log_sd = times.network([(work, 3)])
    assert total * 1e3 == pytest.approx(3 * microseconds(work), rel=0.03)
    assert 0 < log_sd < 0.3


def test_every_network_of_the_catalogue_is_the_sum_of_its_operators(times: OperatorTimes) -> None:
    for works in model_operators().values():
        assert times.covers(works)
        expected = sum(number * microseconds(work) for work, number in works if work.kind != "RESHAPE") / 1e3
        assert times.network(works)[0] == pytest.approx(expected, rel=0.1)


def test_the_shipped_operators_are_those_of_the_catalogue() -> None:
    cards = {name: card for name, card in load_catalogue().items() if not card.own_file}
    assert set(model_operators()) == set(cards)
    for name, works in model_operators().items():
        macs = sum(number * work.macs for work, number in works if work.weights)
        assert macs == pytest.approx(cards[name].macs, rel=0.05)


@pytest.mark.slow
def test_the_shipped_operators_are_those_of_a_conversion(tmp_path: Path) -> None:
    name, path = "mobilenet_v1_0.25_128", tmp_path / "model.tflite"
    with ChildPool(tmp_path / "log") as pool:
        pool.call("advisor.catalog.convert:convert", load_catalogue()[name], None, path)
    assert counted(works_of(read(select_output(path.read_bytes(), "probabilities")))) == model_operators()[name]


def test_a_table_of_operators_reads_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.devices.latency.network_times.shipped_profiles", lambda: tmp_path)
    works = {"b": ((Work("ADD", 4, 4, read=32), 2),), "a": ((Work(DENSE, 1, 5, 7, read=7), 1),)}
    write_operators(tmp_path / OPERATORS_FILE, works)
    assert model_operators.__wrapped__() == works
    (tmp_path / OPERATORS_FILE).write_text("model,number\nadd,x\n")
    with pytest.raises(UsageError, match="cannot be read"):
        model_operators.__wrapped__()


def test_an_operator_with_weights_of_another_kind_is_not_covered(times: OperatorTimes) -> None:
    product = Work("BATCH_MATMUL", 64, 64, 64, read=8192)
    assert not times.covers([(product, 1)])
    assert times.covers([(Work("GELU", 64, 64, read=4096), 1)])
    assert times.network([(Work("GELU", 64, 64, read=4096), 1)])[1] > 0.5


def test_errors_of_different_kinds_cancel(times: OperatorTimes) -> None:
    add, swish = Work("ADD", 196, 64, read=25088), Work("HARD_SWISH", 196, 128, read=25088)
    alone = times.network([(add, 1)])[1]
    assert times.network([(add, 1), (swish, 1)])[1] < alone


def test_measured_networks_correct_the_level_and_narrow_the_interval(times: OperatorTimes) -> None:
    known = model_operators()
    names = ("mobilenet_v1_1.0_224", "mobilenet_v2_0.35_96", "resnet_18_224", "squeezenet_1.1_227")
    measured = [(known[name], 1.3 * times.network(known[name])[0]) for name in names]
    works = known["mobilenet_v2_1.0_224"]
    plain, corrected = NetworkTimes.of(times, ()), NetworkTimes.of(times, measured)
    truth = math.log(1.3 * times.network(works)[0])
    assert abs(corrected.predict(works)[0] - truth) < 0.06
    assert abs(plain.predict(works)[0] - truth) > 0.15
    assert corrected.predict(works)[1] < plain.predict(works)[1]
    assert (plain.measured, corrected.measured) == (0, 4)


def test_measured_networks_show_how_the_sum_errs_with_the_bytes_of_weights(times: OperatorTimes) -> None:
    known = model_operators()

    def error(name: str) -> float:
        return 0.1 * math.log(sum(number * work.weights for work, number in known[name]) / 2.5e6)

    names = ("mobilenet_v1_0.25_128", "mobilenet_v1_1.0_224", "resnet_18_224", "squeezenet_1.1_227", "inception_v3_299")
    measured = [(known[name], math.exp(error(name)) * times.network(known[name])[0]) for name in names]
    corrected = NetworkTimes.of(times, measured)
    light, heavy = "mobilenet_v1_0.25_192", "resnet_50_224"
    apart = [corrected.predict(known[name])[0] - math.log(times.network(known[name])[0]) for name in (light, heavy)]
    assert apart[1] - apart[0] == pytest.approx(error(heavy) - error(light), rel=0.4)
