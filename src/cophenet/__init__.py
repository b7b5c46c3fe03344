"""cophenet: teach networks the shape of a label tree.

Importing this package is cheap: every public name is loaded on first use.
"""
