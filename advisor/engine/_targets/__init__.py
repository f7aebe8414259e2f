"""Handle several target devices: compatibility, predicted latency and remote measurement."""
