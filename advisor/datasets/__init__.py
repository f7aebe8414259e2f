"""Read, split and check the user's images, and apply capture conditions to them."""
