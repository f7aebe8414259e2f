"""Earlier runs, evaluated again for what changed since: a device, a runtime, the machine, the catalogue."""
