"""Does once what every command does at its start; a fork predicts by the same fit, unless its test has devices."""

from advisor.catalog import Catalogue
from advisor.cli._main import app
from advisor.devices import Predictor
from tests.makers.forks import build_once

Catalogue.load()
Predictor.load()
build_once(app)
