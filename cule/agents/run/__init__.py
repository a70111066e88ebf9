"""Runs of learners: folders, checkpoints, logs, evaluations, presets, the command line."""
