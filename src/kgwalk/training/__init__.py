"""Learning from walks: rewards to advantages, advantages to a loss, and batches that fit the memory."""
