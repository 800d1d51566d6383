"""Explore-on-Graph: the graph around the topics stands in the prompt, and one thought explores it."""
