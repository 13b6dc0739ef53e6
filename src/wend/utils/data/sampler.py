"""PyTorch's place for the samplers."""

from wend.frontend.data.bucket import BucketBatchSampler as BucketBatchSampler
from wend.frontend.data.sampler import BatchSampler as BatchSampler
from wend.frontend.data.sampler import RandomSampler as RandomSampler
from wend.frontend.data.sampler import Sampler as Sampler
from wend.frontend.data.sampler import SequentialSampler as SequentialSampler
from wend.frontend.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from wend.frontend.data.sampler import WeightedRandomSampler as WeightedRandomSampler
