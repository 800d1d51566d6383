"""One folder a system: its recipe, its protocol, its demonstrations, its rewards, and a page about it."""
