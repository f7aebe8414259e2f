"""An int8 classifier that a search ships, on aarch64 under qemu: the answers are those of this machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.exporting import Bundle
from advisor.store import RunFolder
from tests.devices.test_arm import aarch64_python
from tests.makers.bundles import export_form

ANSWERS = """\
import json, platform, sys
from pathlib import Path
bundle = Path(sys.argv[1])
sys.path.insert(0, str(bundle))
import check, numpy as np
expected = json.loads((bundle / "test_vectors" / "vectors.json").read_text())
interpreter = check.load_model(bundle)
answers = []
for row in expected["vectors"]:
    image = np.fromfile(bundle / "test_vectors" / row["input"], np.uint8).reshape(*2 * [expected["size"]], 3)
    answers.append(check.outputs(interpreter, image, expected["mean"], expected["std"])[0].tolist())
print(json.dumps([platform.machine(), check.wrong_files(bundle) + check.wrong_answers(bundle, interpreter), answers]))
"""

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]


@pytest.fixture(scope="module")
def quantized(trained: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return export_form(trained, "int8", tmp_path_factory.mktemp("emulated") / "made")


def test_a_shipped_int8_file_gives_the_same_answers_on_arm(quantized: Bundle) -> None:
    machine, wrong, found = answers(aarch64_python(), quantized)
    assert machine == "aarch64"
    assert wrong == []
    assert found == answers(Path(sys.executable), quantized)[2]


def answers(python: Path, bundle: Bundle) -> tuple[str, list[str], list[list[float]]]:
    """Return the kind of machine, what the bundle's own check finds wrong, and the answers to its test vectors."""
    command = [str(python), "-c", ANSWERS, str(bundle.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    machine, wrong, found = json.loads(done.stdout.splitlines()[-1])
    return machine, wrong, found
