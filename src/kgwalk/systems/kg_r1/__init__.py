"""KG-R1: one of four one-hop queries a turn, with credit for every turn."""
