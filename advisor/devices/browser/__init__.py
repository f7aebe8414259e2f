"""A browser on this machine as a device: headless Chromium, with runtimes in WebAssembly."""
