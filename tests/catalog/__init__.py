"""Access to the shipped data."""
