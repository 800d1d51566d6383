"""Facts that a run found on the web and its graph lacks: proposed, compared, accepted into a new store."""
