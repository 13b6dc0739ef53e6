"""torch._higher_order_ops: branches and loops as functions, with gradients of any order.

They are plain Python over `if`, `while` and `for`: the program runs the branch that it takes.
Where a graph is explored (`torch.export`, `torch.onnx.export`) they become its branches and loops.
"""

from wend._higher_order_ops.associative_scan import associative_scan
from wend._higher_order_ops.cond import cond
from wend._higher_order_ops.map import map  # noqa: A004
from wend._higher_order_ops.scan import scan
from wend._higher_order_ops.while_loop import while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
