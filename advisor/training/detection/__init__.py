"""Train detectors: a head for boxes on the maps of a frozen backbone."""
