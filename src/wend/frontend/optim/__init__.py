"""`torch.optim`: optimizers and schedules."""

from wend.frontend.optim.adam import Adam, AdamW
from wend.frontend.optim.adam_variants import Adamax, NAdam, RAdam
from wend.frontend.optim.adaptive import Adadelta, Adagrad, RMSprop
from wend.frontend.optim.first_order import ASGD, Rprop
from wend.frontend.optim.lbfgs import LBFGS
from wend.frontend.optim.optimizer import Optimizer
from wend.frontend.optim.sgd import SGD

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
]
