"""The colours of groups and runs, which all eyes can tell apart."""

from __future__ import annotations

__all__ = ["COLORS"]

# The palette of Okabe and Ito without black and yellow, which a dark or light page would swallow, and a grey.
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#868e96")
