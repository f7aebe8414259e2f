"""Train the graph of a float ``.tflite`` itself, for recipes that retrain weights."""
