"""Does once what every command does at its start; a fork predicts by the same fit, unless its test has devices."""

from advisor.catalog import load_catalogue
from advisor.cli._main import app
from advisor.devices import device_predictor
from tests.makers.forks import build_once

load_catalogue()
device_predictor()
build_once(app)
