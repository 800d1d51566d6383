"""Demonstrations for supervised fine-tuning: walks that a protocol would do well to imitate."""
