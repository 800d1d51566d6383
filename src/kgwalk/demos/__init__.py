"""Demonstrations for supervised fine-tuning: what the systems' writers share."""
