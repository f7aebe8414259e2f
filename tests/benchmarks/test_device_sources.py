"""What a row of a published table must say to become one of a device profile."""

from dataclasses import replace

from advisor.devices import DeviceProfile, DeviceTarget, Measurement
from tools.checks.profile_rows import problems_of


def test_the_check_names_what_a_row_lacks() -> None:
    good = Measurement(
        "npu", "u", "int8", 2.0, source_repo="repo", input_side=224, graph="AI Hub 0.46", runtime_version="2.42.0"
    )
    target = DeviceTarget("npu", "qnn", "npu")

    def found(figure: Measurement) -> list[str]:
        profile = DeviceProfile("d", "D", "phone", "S", (target,), "npu", measurements=(figure,))
        return list(problems_of([profile], {"u": 224}))

    assert found(good) == []
    assert found(replace(good, input_side=192)) == ["d.csv: npu u: input_side 192 is not that of the network, 224"]
    assert found(replace(good, input_side=None, flag="unstated_input")) == []
    assert found(replace(good, graph="", runtime_version="")) == [
        "d.csv: npu u: the row has no graph",
        "d.csv: npu u: the row has no runtime_version",
    ]
