"""Question sets: the folder format, public formats, the hub, the bundled world."""
