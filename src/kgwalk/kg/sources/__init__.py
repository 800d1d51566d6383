"""Source files as blocks of triples: TSV, CSV, N-Triples, N-Quads, Turtle, JSON lines, RoG; also .gz, .zst."""
