"""Input that nobody meant to write."""
