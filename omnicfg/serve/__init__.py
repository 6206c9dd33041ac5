"""Starting servers from a compiled plan: arguments, checks, supervision, and one module for each engine."""
