"""Measurements that need a machine of their own; what they found is under ``docs/benchmarks``."""
