"""Train models on the user's images: features, head, fine-tuning, label checks."""
