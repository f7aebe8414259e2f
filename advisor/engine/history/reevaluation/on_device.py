"""A run answered for a device that is not at hand: what its artefacts would do there is predicted."""

from __future__ import annotations

from advisor.core.errors import UsageError
from advisor.devices.profiles import HOST, DeviceProfile, DeviceTarget
from advisor.engine.history.loaded_run import read_run
from advisor.engine.history.reevaluation.lineage import Child, Relation, newest
from advisor.engine.history.reevaluation.session import Reevaluation, Session
from advisor.engine.targets.compatibility import TargetDevice
from advisor.engine.targets.selection import runtime_remark


def answer_elsewhere(
    session: Session, relation: Relation, selector: str, profile: DeviceProfile, target: DeviceTarget
) -> Reevaluation:
    """Predict what the run's artefacts would do on a device, and decide anew."""
    session.tell(f"{relation.path.name} on {selector}")
    forecaster, former = session.devices.forecaster, session.former(relation, selector)
    environment = forecaster.environment(profile, target)
    if former.environment == environment:
        return Reevaluation(former.path.name, selector)
    causes = (f"the device {selector} was {'changed' if former.device == selector else 'added'}",)
    place = TargetDevice(profile.name, profile, target)
    before, remarks = read_run(former.path), tuple(filter(None, [runtime_remark(place)]))
    path = session.made(former, environment)
    if path is None:
        source = read_run(_searched(session, relation).path)
        limits = source.question.limits
        evaluations = forecaster.evaluate(source.evaluations, place, limits.latency_ms, limits.confidence)
        changes = {"devices": {profile.name: profile.fingerprint()}}
        child = Child(evaluations, selector, environment, changes, sources=(source.folder.path,))
        path = session.make(before, former, child)
    return Reevaluation.of(before, path, selector, causes, remarks)


def _searched(session: Session, relation: Relation) -> Relation:
    """Return the run on this machine that a device's run came from."""
    found = relation if relation.device == HOST else newest(relation.root, HOST, session.known)
    if found is None:
        raise UsageError(f"the search '{relation.root}' that '{relation.path.name}' came from is gone", "search again")
    return found
