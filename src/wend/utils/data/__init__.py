"""Data sets, samplers, and the loader that brings samples in batches."""

from wend.utils.data._utils.collate import UnlikeSamples as UnlikeSamples
from wend.utils.data._utils.collate import default_collate as default_collate
from wend.utils.data._utils.collate import default_convert as default_convert
from wend.utils.data._utils.info import get_worker_info as get_worker_info
from wend.utils.data._utils.ragged import ragged as ragged
from wend.utils.data.bucket import BucketBatchSampler as BucketBatchSampler
from wend.utils.data.dataloader import DataLoader as DataLoader
from wend.utils.data.dataset import ChainDataset as ChainDataset
from wend.utils.data.dataset import ConcatDataset as ConcatDataset
from wend.utils.data.dataset import Dataset as Dataset
from wend.utils.data.dataset import IterableDataset as IterableDataset
from wend.utils.data.dataset import StackDataset as StackDataset
from wend.utils.data.dataset import Subset as Subset
from wend.utils.data.dataset import TensorDataset as TensorDataset
from wend.utils.data.dataset import random_split as random_split
from wend.utils.data.distributed import DistributedSampler as DistributedSampler
from wend.utils.data.sampler import BatchSampler as BatchSampler
from wend.utils.data.sampler import RandomSampler as RandomSampler
from wend.utils.data.sampler import Sampler as Sampler
from wend.utils.data.sampler import SequentialSampler as SequentialSampler
from wend.utils.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from wend.utils.data.sampler import WeightedRandomSampler as WeightedRandomSampler
