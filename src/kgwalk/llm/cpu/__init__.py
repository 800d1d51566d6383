"""The engine for processors: OpenVINO runs the model, with 8-bit weights and a cache of blocks."""
