"""A graph in, an agent for it out."""
