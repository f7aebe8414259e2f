"""Find labels that are likely wrong."""
