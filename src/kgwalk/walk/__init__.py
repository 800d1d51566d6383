"""One walk: the protocol, the rollout, the tools around a graph, finding topics in a question, the agent."""
