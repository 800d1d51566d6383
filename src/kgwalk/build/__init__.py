"""From questions to an agent: the stages of training in one call."""
