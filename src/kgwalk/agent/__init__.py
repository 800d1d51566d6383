"""The agent: protocols, the walk of one question, rollouts of many, and finding topics in a question."""
