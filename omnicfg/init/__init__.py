"""A first file: an overlay on a profile, or a profile of one's own, with comments that explain it."""
