"""What an agent may do with a graph, as typed functions."""
