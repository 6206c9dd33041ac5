"""Laws that hold for every profile."""
