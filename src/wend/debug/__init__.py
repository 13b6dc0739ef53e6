"""wend.debug: the graph and the work of the engine, with reasons."""

from wend._frontend.batching.report import Batches, batches
from wend._frontend.explanation import Explanation, explain
from wend._frontend.profiling.memory_report import HeldMemory
from wend._frontend.profiling.slow_step import WhySlow, why_slow
from wend._frontend.seeing.graph_diff import GraphDiff, diff
from wend._frontend.seeing.op_graph import OpGraph, OpNode
from wend._frontend.seeing.path_map import PathMap, paths
from wend._frontend.variant_table import VariantTable, variants
from wend.debug._bad_values import BadValue, find_nan, nan_guard
from wend.debug._breaking import break_when
from wend.debug._graph_of import graph, watch
from wend.debug._memory import memory
from wend.debug._no_gradient import NoGradient, WhyNoGradient, why_no_gradient
from wend.debug._summary import ModelSummary, SummaryRow, summary

__all__ = [
    "BadValue",
    "Batches",
    "Explanation",
    "GraphDiff",
    "HeldMemory",
    "ModelSummary",
    "NoGradient",
    "OpGraph",
    "OpNode",
    "PathMap",
    "SummaryRow",
    "VariantTable",
    "WhyNoGradient",
    "WhySlow",
    "batches",
    "break_when",
    "diff",
    "explain",
    "find_nan",
    "graph",
    "memory",
    "nan_guard",
    "paths",
    "summary",
    "variants",
    "watch",
    "why_no_gradient",
    "why_slow",
]
