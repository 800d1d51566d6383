"""`kgwalk fit`: a graph in, an agent for it out, by worked examples or by training."""
