"""What ``advisor benchmark`` and ``advisor profile`` show: tables on the terminal and ``profile.html``."""
