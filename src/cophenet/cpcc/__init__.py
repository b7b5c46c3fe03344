"""The loss, Pearson's correlation, the cross-batch memory, and the exchange between processes."""

from cophenet.cpcc.loss import CPCCLoss
from cophenet.cpcc.pearson import cpcc

__all__ = ["CPCCLoss", "cpcc"]
