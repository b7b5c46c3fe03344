"""Data sources with a label tree and a source/target split; loaders and samplers.

A source is selected by name and reads a folder. It returns a `DataSet`: samples by part (train, test) and
domain (full, source, target), each with the tree of its classes. One file per source.
"""

from cophenet.data.augmentation import augment_names, create_augment
from cophenet.data.breeds import Entity13, Entity30, Living17, NonLiving26
from cophenet.data.cifar import Cifar10, Cifar100
from cophenet.data.dataset import ArrayInputs, DataSet, Domain, Inputs, Part, Requirement, Samples
from cophenet.data.digits import Digits
from cophenet.data.download import download
from cophenet.data.fashion_mnist import FashionMnist
from cophenet.data.glosses import Glosses
from cophenet.data.image_files import ImageFiles
from cophenet.data.image_folders import ImageFolder
from cophenet.data.inat import INat21Mini
from cophenet.data.loader import Loader
from cophenet.data.registry import DataSource, create_source, register_source, source_names, source_summaries
from cophenet.data.samplers import HierarchicalBatchSampler
from cophenet.data.stratified_sampling import k_shot, stratified_split
from cophenet.data.synthetic import Synthetic
from cophenet.data.vectors import Vectors

__all__ = [
    "ArrayInputs",
    "Cifar10",
    "Cifar100",
    "DataSet",
    "DataSource",
    "Digits",
    "Domain",
    "Entity13",
    "Entity30",
    "FashionMnist",
    "Glosses",
    "HierarchicalBatchSampler",
    "INat21Mini",
    "ImageFiles",
    "ImageFolder",
    "Inputs",
    "Living17",
    "Loader",
    "NonLiving26",
    "Part",
    "Requirement",
    "Samples",
    "Synthetic",
    "Vectors",
    "augment_names",
    "create_augment",
    "create_source",
    "download",
    "k_shot",
    "register_source",
    "source_names",
    "source_summaries",
    "stratified_split",
]
