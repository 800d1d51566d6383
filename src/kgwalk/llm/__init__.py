"""Language models behind one interface: token ids in, token ids and log-probabilities out."""
