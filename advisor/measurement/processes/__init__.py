"""Run a measuring script in a child process, in this environment or in one with another runtime."""
