"""The documentation: its commands and its examples are run, its links followed."""
