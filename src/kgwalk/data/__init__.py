"""Question sets: dataset folders, public formats, the hub, mixtures, the bundled world."""
