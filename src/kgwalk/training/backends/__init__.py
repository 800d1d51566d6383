"""GRPO on outside trainers: kgwalk's walks, rewards and credit; their optimiser, processes and hardware."""
