"""Devices and memory: what a plan takes and a model needs, known before anything runs."""
