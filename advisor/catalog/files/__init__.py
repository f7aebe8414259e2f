"""Read catalogue files (YAML) into cards, with a cache of what was parsed."""
