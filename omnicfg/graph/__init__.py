"""A profile as a graph: the files that it is made from, and the stages that it configures."""
