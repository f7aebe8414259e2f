"""Hostile and absurd input: every command ends soon, with the right exit code, and says what is wrong."""
