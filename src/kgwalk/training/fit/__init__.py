"""`kgwalk fit`: a graph in, an agent trained for it out."""
