"""The tests; they mirror the package and share ``tests.upstream``."""
