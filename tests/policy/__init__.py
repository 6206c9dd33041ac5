"""Policies of a team's own."""
