"""The user's images: reading, splitting, checking, capture conditions."""
