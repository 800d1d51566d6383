"""Questions made from graphs: what to ask, how it is said, the answers, the splits."""
