"""Weights of trained agents, which `cule.zoo` describes and finds."""
