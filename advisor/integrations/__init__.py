"""What advisor works with besides its own parts. Each folder registers itself by an entry point."""
