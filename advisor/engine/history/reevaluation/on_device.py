"""Re-evaluate a run for another device: its artefacts are predicted there."""

from __future__ import annotations

from advisor.core.errors import UsageError
from advisor.devices.profiles import HOST, DeviceProfile, DeviceTarget
from advisor.engine.history.loaded_run import load_run
from advisor.engine.history.reevaluation.lineage import Child, Origin, latest_descendant
from advisor.engine.history.reevaluation.session import Reevaluation, Session
from advisor.engine.targets.compatibility import TargetDevice
from advisor.engine.targets.selection import runtime_remark


def reevaluate_on_device(
    session: Session, origin: Origin, selector: str, profile: DeviceProfile, target: DeviceTarget
) -> Reevaluation:
    """Predict the run's artefacts on a device, and decide anew."""
    session.tell(f"{origin.path.name} on {selector}")
    predictor, start = session.devices.predictor, session.start_of(origin, selector)
    environment = predictor.environment(profile, target)
    if start.environment == environment:
        return Reevaluation(start.path.name, selector)
    causes = (f"the device {selector} was {'changed' if start.device == selector else 'added'}",)
    device = TargetDevice(profile.name, profile, target)
    before, remarks = load_run(start.path), tuple(filter(None, [runtime_remark(device)]))
    path = session.existing(start, environment)
    if path is None:
        measured = load_run(_measured_origin(session, origin).path)
        limits = measured.question.limits
        evaluations = predictor.evaluate(measured.evaluations, device, limits.latency_ms, limits.confidence)
        manifest = {"devices": {profile.name: profile.fingerprint()}}
        child = Child(evaluations, selector, environment, manifest, sources=(measured.folder.path,))
        path = session.add(before, start, child)
    return Reevaluation.of(before, path, selector, causes, remarks)


def _measured_origin(session: Session, origin: Origin) -> Origin:
    """Return the run on this machine that a device's run came from."""
    found = origin if origin.device == HOST else latest_descendant(origin.root, HOST, session.known)
    if found is None:
        raise UsageError(f"the search '{origin.root}' that '{origin.path.name}' came from is gone", "search again")
    return found
