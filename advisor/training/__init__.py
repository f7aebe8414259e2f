"""Retraining on the user's images: features, head, fine-tuning."""
