# ruff: noqa: F401, F403
"""Modules, parameters, layers and losses; `functional`, `init` and `utils` beside them."""

from wend.frontend.nn import *
from wend.nn import functional, init, modules, parallel, parameter, utils
