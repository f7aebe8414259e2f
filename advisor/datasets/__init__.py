"""The user's pictures: reading, splitting, checking, capture conditions."""
