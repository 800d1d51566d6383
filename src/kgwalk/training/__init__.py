"""Learning from walks: demonstrations, SFT, GRPO, the fit of a graph, and what they need."""
