"""Optimizers and schedules of learning rates."""

from wend.optim import lr_scheduler, swa_utils
from wend.optim.adadelta import Adadelta
from wend.optim.adafactor import Adafactor
from wend.optim.adagrad import Adagrad
from wend.optim.adam import Adam, SparseAdam
from wend.optim.adamax import Adamax
from wend.optim.adamw import AdamW
from wend.optim.asgd import ASGD
from wend.optim.lbfgs import LBFGS
from wend.optim.muon import Muon
from wend.optim.nadam import NAdam
from wend.optim.optimizer import Optimizer, swap_in_optimizer_params_and_state
from wend.optim.radam import RAdam
from wend.optim.rmsprop import RMSprop
from wend.optim.rprop import Rprop
from wend.optim.sgd import SGD

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]
