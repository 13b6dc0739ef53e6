# mypy: ignore-errors
# cython: boundscheck=False, auto_pickle=False
"""Runs a node of a graph by the rule of the op: the native half of `runners.NodeRun`.

Compiled by Cython with the types in `_step.pxd`; runs as plain Python too, on the stand-ins of
`_step_select`.
"""

from wend._engine.core._types import evaluate
from wend._engine.ops.elementwise.family import cast, converted


def use_arrays(cls, worth):
    """Take over the type of arrays, and the bytes of a large array."""
    set_arrays(cls, "nbytes", worth)


def kind_of(array, dtype):
    """Return whether an array is large, and whether it is of that very dtype."""
    return large(array), is_of(array, dtype)


class RuleStep:
    """The short way to run a node: operands are read, the rule is called, the result is stored.

    rule: a function of operands and numbers; None where the node runs in the long way only
    inputs, output: places of the operands and of the only result in the environment
    args: expressions of the numbers
    arrange: puts operands and numbers into the order of the rule; None for operands alone
    casts: (which of these, the NumPy dtype that it is to have)
    dtype: the NumPy dtype of the result, where the rule may give another; else None
    frees: places that are read no more
    donates, overwrites: whether the rule may write over an operand, of any size or a large one
    turned: whether the result is to lie column by column
    node, runner, outputs, spent: fields of the long way, see `NodeRun`
    """

    def call(self, env, types, args):
        """Run the node on the environment: read operands, store the result, free values.

        env: all arrays, by place     types: types of values     args: run-time args
        """
        inputs = self.inputs
        n = len(inputs)
        rule = self.rule
        if (
            rule is None
            or self.donates
            or self.turned
            or (self.overwrites and (large(env[inputs[0]]) or large(env[inputs[n - 1]])))
        ):
            self.call_at_length(env, types, args)
            return
        if self.arrange is not None or self.casts:
            row = self.operands(env)
            if self.arrange is not None:
                row = self.arrange(row, self.numbers(types, args))
            for which in self.casts:
                k = which[0]
                row[k] = cast(row[k], which[1])
            result = rule(*row)
        elif n == 1:
            result = rule(env[inputs[0]])
        elif n == 2:
            result = rule(env[inputs[0]], env[inputs[1]])
        else:
            result = rule(*self.operands(env))
        if self.dtype is not None and not is_of(result, self.dtype):
            result = converted(result, self.dtype)
        for i in self.frees:
            env[i] = None
        env[self.output] = result

    def operands(self, env):
        """Return the operands."""
        return [env[i] for i in self.inputs]

    def numbers(self, types, args):
        """Return the numbers."""
        return [evaluate(e, types, args) for e in self.args]
