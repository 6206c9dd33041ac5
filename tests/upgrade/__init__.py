"""What an upgrade changes for profiles."""
