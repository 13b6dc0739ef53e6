# mypy: ignore-errors
# cython: boundscheck=False, auto_pickle=False
"""Runs a node of a graph by the rule of the op: the native half of `runners.NodeRun`.

Compiled by Cython with the types in `_step.pxd`; runs as plain Python too, on the stand-ins of
`_step_select`.
"""

from wend._engine.core._types import evaluate
from wend._engine.ops.elementwise.family import Formula, cast, converted


def use_arrays(cls, worth):
    """Take over the type of arrays, and the bytes of a large array."""
    set_arrays(cls, "nbytes", worth)


def kind_of(array, dtype):
    """Return whether an array is large, and whether it is of that very dtype."""
    return large(array), is_of(array, dtype)


class RuleRunner:
    """The runner of an op by the op's rule.

    rule: a function of single operands and numbers, in the order of the op's signature; or
    None where the op is run in another way
    quick, casts, dtype: the parts of a `Formula`; else the rule, and no more
    arrange: puts operands and numbers into the order of the rule; None for operands alone
    single: whether there is a single result
    donates, overwrites, extra: what the rule may write over, and the name of the further argument
    """

    def __init__(self, prim, rule):
        schedule = prim.schedule
        self.rule = self.quick = rule
        self.casts = ()
        self.dtype = None
        if type(rule) is Formula:
            self.quick = rule.rule
            self.casts = rule.casts
            self.dtype = rule.dtype
        self.arrange = None if prim.plain_form else prim.arrange
        self.single = prim.result_wrap() is None
        self.donates = bool(schedule.donates)
        self.overwrites = bool(schedule.overwrites)
        self.extra = "turned" if schedule.turns else "out"

    def __call__(self, arrays, args, value=None):
        """Return the result of the op, or the results of an op that has several.

        value: `out` or `turned`, for an op that takes either
        """
        row = arrays if self.arrange is None else self.arrange(arrays, args)
        if value is None:
            return self.rule(*row)
        return self.rule(*row, **{self.extra: value})


class RuleStep:
    """A node of a graph, and the short way to run the node by the rule of the op.

    In the short way, operands are read, the rule is called, and the result is stored.

    node: the node     runner: its runner
    direct: the runner where the short way is open; else None
    inputs, outputs: places of operands and results in the environment
    output: the place of the only result, or None
    args: expressions of the numbers
    frees: places that are read no more
    donates, overwrites: whether the rule may write over an operand, of any size or a large one
    turned: whether the result is to lie column by column
    spent: see `NodeRun.room`
    """

    def take(self, node, frees, runner):
        """Set all fields."""
        self.node = node
        self.inputs = inputs = node.inputs
        self.outputs = outputs = node.outputs
        self.args = node.args
        self.frees = frees
        self.runner = runner
        self.turned = False
        self.spent = None
        known = runner if type(runner) is RuleRunner else RuleRunner(node.prim, None)
        self.output = outputs[0] if known.single else None
        self.donates = known.donates and inputs[0] in frees
        self.overwrites = known.overwrites and len(frees) > 0
        self.direct = known if known.single and known.rule is not None else None

    def call(self, env, types, args):
        """Run the node on the environment: read operands, store the result, free values.

        env: all arrays, by place     types: types of values     args: run-time args
        """
        inputs = self.inputs
        n = len(inputs)
        direct = self.direct
        if direct is None or self.donates or self.turned:
            self.call_at_length(env, types, args)
            return
        if n > 0:
            i = inputs[0]
            first = last = env[i]
            if n > 1:
                i = inputs[n - 1]
                last = env[i]
            if self.overwrites and (large(first) or large(last)):
                first = last = None  # else the operands could not be written over
                self.call_at_length(env, types, args)
                return
        rule = direct.quick
        if direct.arrange is not None or direct.casts:
            row = self.operands(env)
            if direct.arrange is not None:
                row = direct.arrange(row, self.numbers(types, args))
            for which in direct.casts:
                k = which[0]
                row[k] = cast(row[k], which[1])
            result = rule(*row)
        elif n == 1:
            result = rule(first)
        elif n == 2:
            result = rule(first, last)
        else:
            result = rule(*self.operands(env))
        if direct.dtype is not None and not is_of(result, direct.dtype):
            result = converted(result, direct.dtype)
        for i in self.frees:
            env[i] = None
        i = self.output
        env[i] = result

    def operands(self, env):
        """Return the operands."""
        row = []
        for i in self.inputs:
            row.append(env[i])
        return row

    def numbers(self, types, args):
        """Return the numbers."""
        row = []
        for e in self.args:
            row.append(evaluate(e, types, args))
        return row


def steps_of(nodes, needed, make):
    """Return the steps that needed values depend on, in order, each with the values it frees.

    nodes: of a path, in order     make: a step of a node and the values to free
    needed: ids of the values that stay; all values that the steps read are added
    """
    steps = []
    for k in range(len(nodes) - 1, -1, -1):
        node = nodes[k]
        outputs = node.outputs
        if needed.isdisjoint(outputs):
            continue
        inputs = node.inputs
        spent = []  # what no later step reads; these have been seen
        for i in inputs:
            if i not in needed:
                needed.add(i)
                spent.append(i)
        if len(outputs) > 1:
            for i in outputs:
                if i not in needed:
                    spent.append(i)
        steps.append(make(node, tuple(spent)))
    steps.reverse()
    return steps
