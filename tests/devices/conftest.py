"""Shipped profiles, a predictor fitted once, a real SSH server and a small debug daemon on loopback."""

from pathlib import Path

import pytest

from advisor.devices import Predictor, Profiles, load_features
from advisor.devices._latency.features import FeatureTable
from advisor.devices._latency.table import LatencyTable, build_table
from advisor.devices._prediction import fit_predictor
from advisor.devices._profiles import load_profiles
from advisor.isolation import agent
from tests.builders import write_file
from tests.measurement import small_models

AGENT = Path(agent.__file__)


@pytest.fixture(scope="session")
def profiles() -> Profiles:
    return load_profiles()


@pytest.fixture(scope="session")
def features() -> FeatureTable:
    return load_features()


@pytest.fixture(scope="session")
def table(profiles: Profiles, features: FeatureTable) -> LatencyTable:
    return build_table(profiles.values(), features)


@pytest.fixture(scope="session")
def predictor(profiles: Profiles) -> Predictor:
    return fit_predictor(profiles)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_file(tmp_path_factory.mktemp("models") / "classifier.tflite", small_models.classifier())


@pytest.fixture(scope="session")
def agent() -> Path:
    return AGENT
