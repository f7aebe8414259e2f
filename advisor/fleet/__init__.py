"""One app, many phones: the few files that serve a fleet, and the choice among them on the phone."""
