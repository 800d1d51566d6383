"""Questions made from graphs: plans, their wording, the answers, the splits; and invented graphs."""
