"""Time files and judge whether the figures can be trusted."""
