"""The bundle to ship: the model with everything that a team needs to put it into an app."""
