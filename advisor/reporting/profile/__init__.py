"""Output of ``advisor benchmark`` and ``advisor profile``: tables on the terminal and ``profile.html``."""
