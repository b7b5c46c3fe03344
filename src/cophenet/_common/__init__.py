"""Helpers for all subpackages: argument checks, files and locks, optional packages."""
