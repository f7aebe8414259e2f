"""Ways to reach a real device."""
