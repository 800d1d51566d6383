"""The web in a walk: what a search finds, in a local corpus or through an engine's API."""
