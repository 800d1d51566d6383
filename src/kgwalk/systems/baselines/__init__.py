"""What a score must be read against: oracle, random walk, Think-on-Graph, and models without a graph."""
