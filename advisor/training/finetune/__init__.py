"""Fine-tune a backbone and its head in Keras."""
