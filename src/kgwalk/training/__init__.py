"""Training: demonstrations, SFT, GRPO, the fit of an agent to a graph, rankers, and what they need."""
