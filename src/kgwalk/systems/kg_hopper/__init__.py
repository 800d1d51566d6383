"""KG-Hopper: one growing thought with a search for each entity on the way."""
