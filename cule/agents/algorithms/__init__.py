"""The algorithms: one file each, with its options and its training loop."""
