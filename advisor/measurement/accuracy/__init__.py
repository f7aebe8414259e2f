"""Run a classifier over images, as they are and under capture conditions."""
