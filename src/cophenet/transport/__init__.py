"""Distances between the classes of a batch, one file per distance."""
