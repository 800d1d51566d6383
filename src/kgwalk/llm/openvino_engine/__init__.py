"""The OpenVINO engine: the model on a processor, with int8 weights and a cache of blocks."""
