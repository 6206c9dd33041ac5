"""What this machine can serve, what it lacks for it, and how to get that."""
