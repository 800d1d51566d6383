"""One walk over a graph: protocol, rollout, tools, linking, evidence, and the agent that asks."""
