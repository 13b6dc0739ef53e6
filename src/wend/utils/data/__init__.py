"""Data sets, samplers, and the loader that brings their samples in batches."""

from wend.frontend.data.bucket import BucketBatchSampler as BucketBatchSampler
from wend.frontend.data.collate import UnlikeSamples as UnlikeSamples
from wend.frontend.data.collate import default_collate as default_collate
from wend.frontend.data.collate import default_convert as default_convert
from wend.frontend.data.dataset import ChainDataset as ChainDataset
from wend.frontend.data.dataset import ConcatDataset as ConcatDataset
from wend.frontend.data.dataset import Dataset as Dataset
from wend.frontend.data.dataset import IterableDataset as IterableDataset
from wend.frontend.data.dataset import StackDataset as StackDataset
from wend.frontend.data.dataset import Subset as Subset
from wend.frontend.data.dataset import TensorDataset as TensorDataset
from wend.frontend.data.dataset import random_split as random_split
from wend.frontend.data.distributed import DistributedSampler as DistributedSampler
from wend.frontend.data.info import get_worker_info as get_worker_info
from wend.frontend.data.loader import DataLoader as DataLoader
from wend.frontend.data.ragged import ragged as ragged
from wend.frontend.data.sampler import BatchSampler as BatchSampler
from wend.frontend.data.sampler import RandomSampler as RandomSampler
from wend.frontend.data.sampler import Sampler as Sampler
from wend.frontend.data.sampler import SequentialSampler as SequentialSampler
from wend.frontend.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from wend.frontend.data.sampler import WeightedRandomSampler as WeightedRandomSampler
