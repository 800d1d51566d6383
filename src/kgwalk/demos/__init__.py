"""What the demonstrations of all systems share: routes, voices, writers, filters."""
