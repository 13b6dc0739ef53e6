"""PyTorch's place for the data set classes."""

from wend.frontend.data.dataset import ChainDataset as ChainDataset
from wend.frontend.data.dataset import ConcatDataset as ConcatDataset
from wend.frontend.data.dataset import Dataset as Dataset
from wend.frontend.data.dataset import IterableDataset as IterableDataset
from wend.frontend.data.dataset import StackDataset as StackDataset
from wend.frontend.data.dataset import Subset as Subset
from wend.frontend.data.dataset import TensorDataset as TensorDataset
from wend.frontend.data.dataset import random_split as random_split
