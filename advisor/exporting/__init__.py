"""The bundle to ship: the model with all that a team needs to put it into an app. Only names are imported here."""
