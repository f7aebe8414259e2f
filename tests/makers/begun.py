"""Does once, when it is imported, what every command does when it begins or answers: two seconds of each new process.

A fork goes on from there. It predicts latencies by the same fit, unless the settings of its test have devices of their
own.
"""

from advisor.catalog import load_catalogue
from advisor.cli._main import app
from advisor.devices import device_predictor
from tests.makers.forks import build_once

load_catalogue()
device_predictor()
build_once(app)
