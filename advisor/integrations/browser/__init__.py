"""A browser: headless Chromium on this machine as a device, and a page of a bundle that classifies images."""
