"""Choose, retrain and compress the image model to ship on phones and small devices."""

__version__ = "0.1.0"
