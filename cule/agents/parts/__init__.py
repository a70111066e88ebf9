"""The algorithms: one file each, with its options, how it acts and how it learns."""
