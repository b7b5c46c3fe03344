"""Feature vectors in files: read whole, in parts or mapped, and written; each format is known once."""
