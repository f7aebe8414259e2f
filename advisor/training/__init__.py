"""Retraining on the user's pictures: features, head, fine-tuning."""
