"""Renderers: one file each."""
