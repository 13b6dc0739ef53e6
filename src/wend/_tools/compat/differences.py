"""Names of PyTorch's that Wend leaves out, and call forms that differ, on purpose: with reasons.

`wend compat` and the table in docs/names.md (`tests/surface/page.py`) read the same data.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Why calls of a name differ, and which do: all of them where nothing more is said.

    keywords: a call that gives one of these differs
    positional: a call with so many positional arguments differs
    """

    reason: str
    keywords: tuple[str, ...] = ()
    positional: int | None = None

    def concerns(self, positional: int, keywords: Collection[str]) -> bool:
        """Whether a call with these arguments meets the difference."""
        if not self.keywords and self.positional is None:
            return True
        enough = self.positional is not None and positional >= self.positional
        return enough or any(word in keywords for word in self.keywords)


#: (words, pattern of full names, reason)
OUT_OF_SCOPE: list[tuple[str, str, str]] = [
    (
        "other devices",
        r"torch\.(xpu|mps|mtia|cpu)\.|torch\.(cudnn|miopen|mkldnn)_|torch\.backends\.(cusparselt|kleidiai"
        r"|miopen|mha|xeon|python_native|_?nnapi|_coreml|opt_einsum|quantized)"
        r"|torch\.cuda\.(BFloat16|Bool|Byte|Char|Complex|Double|Float|Half|Int|Long|Short)\w+"
        r"|torch\.cuda\.(caching|cudart|CUDA|Cuda|graph|Mem|memory_|make_graphed|Green|External|check_"
        r"|change_|cudaStatus|current_blas|current_solver|default_|device_mem|Deferred|get_(alloc|arch"
        r"|genc|per_process|stream|sync|rng)|has_|host|is_current|is_tf32|list_gpu|max_memory_cached"
        r"|power|reset_|set_(per|rng|stream|sync)|temperature|use_mem|utilization|clock|can_device"
        r"|initial_seed|device_of|sparse|streams|nccl|nvtx|profiler|gds|green|jiterator|tunable"
        r"|comm|memory$|graphs|gds|random|error|amp\.)"
        r"|torch\.accelerator\.(Graph|.*memory|.*stream|.*device|empty_|memory$)"
        r"|torch\.(Stream|Event|Device|DeviceObj|Stream)\b|.*\.(ipu|mtia|xpu|record_stream|to_mkldnn)$"
        r"|torch\.(is_vulkan|batch_norm_(stats|elemt|gather|backward|update))"
        r"|torch\.sparse\.(SparseSemiStructured|to_sparse_semi_structured|semi_structured)\w*"
        r"|torch\.nn\.functional\.(scaled|grouped|Scaling|Swizzle|scaled_grouped)\w*|torch\.utils\.dlpack\.DLDeviceType.*",
        "these belong to devices or drivers that Wend does not use (docs/howto/accelerators.md)",
    ),
    (
        "quantisation",
        r"torch\.(fake_)?quantize\w*|torch\.(ao|quantization)(\.|$)|torch\.nn\.(quantized|quantizable|qat"
        r"|intrinsic)(\.|$)|torch(\.Tensor)?\.(q_|int_repr|dequantize|qscheme)\w*|torch\.(fbgemm|qint|quint|quantized_|choose_qparams"
        r"|fused_moving|empty_quantized|per_channel|per_tensor)\w*|.*mkldnn_max.*",
        "there are 8 bits by modules (docs/howto/quantization.md); PyTorch gives these names up",
    ),
    (
        "script compiler",
        r"torch\.(AggregationType|AliasDb|Argument\w*|AVG|SUM|Benchmark\w+|Block|CallStack|Capsule|Code|Compil\w+"
        r"|Complete\w+|Concrete\w+|DeepCopy\w+|Deserial\w+|Dispatch\w+|ErrorReport|Exclude\w+"
        r"|Execution\w+|FatalError|FileCheck|FunctionSchema|Gradient|Graph\w*|IODescr\w+|JITEx\w+|Lite\w+"
        r"|Locking\w+|ModuleDict|Node|Noop\w+|OperatorInfo|ParameterDict|BufferDict|PyTorchFile\w+"
        r"|Script\w+|Serialization\w+|StaticModule|Tag|Throughput\w+|TracingState|Use|Value"
        r"|(Any|Await|Bool|Class|Complex|DeviceObj|Dict|Enum|Float|Future|Inferred|Int|Interface|List|None|Number"
        r"|Optional|PyObject|RRef|String|SymBool|SymInt|Tensor|Tuple|Union|StreamObj)?Type"
        r"|import_ir\w*|parse_\w+|merge_type\w*|unify_type\w*|fork|wait|init_num_threads)$"
        r"|torch\.jit\.(ScriptModule\.(code_with_constants|get_debug_state)|quantized|mobile|generate_bytecode|unsupported\w*|supported\w*|frontend|annotations)"
        r"|torch\.(nativert|package|contrib)(\.|$)",
        "programs run as Python; `torch.jit` keeps the calls, not the compiler",
    ),
    (
        "small types",
        r"torch\.(u?int[1-7]|bits\w*|bit|float4\w*|complex32|.*chalf)$|torch\.Tensor\.chalf",
        "types of less than a byte, and half complex",
    ),
    (
        "inside of PyTorch",
        r"torch\.(\w+_copy|native_\w+|sym_\w+|slice_inverse|convolution|thread_safe_generator"
        r"|affine_grid_generator|max_pool\dd_with_indices|has_\w+|get_device_module|DisableTorchFunction"
        r"|_?embedding_renorm_|autocast_\w+crement_nesting|batch_norm_\w+|fbgemm\w*|mkldnn\w*)$"
        r"|torch\.utils\.(hipify|jit|bundled|mobile|show_pickle|viz|model_dump|debug_log|file_baton"
        r"|throughput|mkldnn|backcompat|cpp_backtrace|backend_reg|collect_env|cpp_ext|serialization)\w*"
        r"|torch\.(_?lazy|monitor|numa|compiler\.load_compiled\w*|nn\.backends|nn\.cpp|export\.(pt2|passes|exper|custom_o|decomp))"
        r"|torch\.(onnx\.(symbolic\w*|_?internal|ops|testing|verif|utils|operators|errors)|fx\.(experimental|passes|tensor_type|config|annotate))"
        r"|torch\.Tensor\.(slice_inverse|const_data_ptr|volatile|reinforce|storage_type|grad_dtype|module_load)"
        r"|torch\.autograd\.(NestedIOFunction|profiler_legacy)|torch\.onnx\.(InputObserver|ExportableModule)"
        r"|torch\.serialization\.(normalize|storage_to|Storage|mkdtemp|check_module|validate|SourceChange)\w*"
        r"|torch\.utils\.checkpoint\.(GraphExec|SAC|Selective\w+Context|CheckpointFunction|check_|detach_|get_dev|set_dev)\w*",
        "parts that PyTorch's own code calls, and that its documentation leaves out",
    ),
    (
        "dispatcher",
        r"torch\.library\.(Library\.(fallback|register_symm_mem_args)|register_torch_dispatch)"
        r"|torch\.overrides\.enable_reentrant_dispatch",
        "calls go to functions by name: there is no table of keys, and no class below tensors",
    ),
    (
        "data pipes",
        r"torch\.utils\.data\.(DF|DataChunk|Iter\w*Pipe|Map\w*Pipe|argument_|functional_|guaranteed"
        r"|non_det|runtime_|datapipes|graph|_?typing|backward_comp|standard_pipes)\w*",
        "PyTorch has deprecated these",
    ),
    (
        "calls into other processes",
        r"torch\.distributed\.(rpc|autograd|remote_device|nn\.(api|jit))(\.|$)|torch\.distributed\.optim\."
        r"(DistributedOptimizer|as_functional_optim|functional_|named_optimizer|optimizer|utils|apply_opt)\w*",
        "MPI carries collectives and messages, not calls; so far there is no RPC",
    ),
    (
        "parts of layers in ranks",
        r"torch\.distributed\.(pipelining|tensor\.(parallel|debug|experimental|device_mesh|placement_types))(\.|$)",
        "pipelines and tensor parallelism are left out; `fully_shard` shares parameters out",
    ),
    (
        "the first FSDP",
        r"torch\.distributed\.fsdp\.(FullySharded\w+|BackwardPrefetch|CPUOffload|MixedPrecision|Sharding\w+"
        r"|\w*StateDict(Config|Settings|Type)|OptimStateKeyType|api|fully_sharded_data_parallel|wrap"
        r"|sharded_grad_scaler)(\.|$)",
        "PyTorch has deprecated it; `fully_shard` has its place, and `GradScaler` asks all ranks",
    ),
    (
        "grids and streams of FSDP",
        r"torch\.distributed\.fsdp\.(DataParallelMeshDims|FSDPModule\.set_(all_reduce_hook|custom_\w+"
        r"|post_optim_event|symm_mem_for_comm))",
        "rows have no replicas, and there are no streams",
    ),
    (
        "planners of checkpoints",
        r"torch\.distributed\.checkpoint\.(\w*Plan\w*|(Read|Write)Item|Storage(Reader|Writer)|load_sharded_\w+"
        r"|FileSystem(Reader\.(prepare|read_data|set_up)|Writer\.stage)\w*|(Quantized)?HuggingFace\w+"
        r"|default_planner|planner\w*|resharding|staging|storage|utils|optimizer|(quantized_)?hf_storage"
        r"|format_utils|logg\w+)(\.|$)",
        "a checkpoint is an index beside files of safetensors; ranks agree who writes each piece",
    ),
    (
        "inside of process groups",
        r"torch\.distributed\.(\w+Options|ProcessGroupGloo|GroupName|record_comm|Backend\.(FAKE|backend_type_map)"
        r"|c10d_logger|logging_handlers|argparse_util|collective_utils|config|debug|utils|flight_recorder"
        r"|optim\.(PostLocalSGD|post_local)\w*"
        r"|algorithms\.(model_averaging|ddp_comm_hooks\.(ddp_zero|mixed_prec|optimizer_over|post_local|quantiz)))",
        "parts of NCCL's and gloo's carriers, and experiments on these",
    ),
    (
        "inside of torchrun",
        r"torch\.distributed\.(launcher\.api|elastic\.(agent|control_plane|events|metrics|rendezvous|timer|utils"
        r"|multiprocessing\.(api|redirects|subprocess_handler|tail_log|errors\.(error_handler|handlers))))(\.|$)",
        "`wend launch` starts ranks in its own way, by sockets or MPI",
    ),
    (
        "copies on devices",
        r"torch\.nn\.parallel\.comm",
        "the CPU is the only device",
    ),
]

_OUT_DTYPE = "`out_dtype` exists on GPUs only"
_BY_KEYWORD = "`out` and `dtype` are given by keyword"
_MADE_BY_WEND = Difference("made by Wend alone")
_NO_CONSTRUCTOR = Difference("no constructors for users")
_HINT = Difference("hints, no functions")

#: Call forms that Wend does not take, by full name.
ON_PURPOSE: dict[str, Difference] = {
    "torch.mm": Difference(_OUT_DTYPE, ("out_dtype",), 3),
    "torch.bmm": Difference(_OUT_DTYPE, ("out_dtype",), 3),
    "torch.addmm": Difference(_OUT_DTYPE, ("out_dtype",)),
    "torch.baddbmm": Difference(_OUT_DTYPE, ("out_dtype",)),
    "torch.layout": _NO_CONSTRUCTOR,
    "torch.memory_format": _NO_CONSTRUCTOR,
    "torch.nn.functional.normalize": Difference(_BY_KEYWORD, positional=5),
    "torch.Tensor.expand": Difference(
        "`implicit` says where a call of PyTorch's own comes from", ("implicit",)
    ),
    "torch.autograd.graph.Node": _MADE_BY_WEND,
    "torch.autograd.graph.Node.metadata": Difference("a property, as PyTorch's own nodes have"),
    "torch.export.Dim.AUTO": _HINT,
    "torch.export.Dim.DYNAMIC": _HINT,
    "torch.export.Dim.STATIC": _HINT,
    "torch.export.ExportedProgram": _MADE_BY_WEND,
    "torch.onnx.ONNXProgram": _MADE_BY_WEND,
    "torch.jit.Future": _MADE_BY_WEND,
    "torch.types.Storage": _NO_CONSTRUCTOR,
    "torch.SymBool": _MADE_BY_WEND,
    "torch.SymFloat": _MADE_BY_WEND,
    "torch.SymInt": _MADE_BY_WEND,
    "torch.utils.checkpoint.DefaultDeviceType.set_device_type": Difference(
        "the CPU is the default"
    ),
    "torch.onnx.export": Difference(
        "weights are in the file, and the model is compared, by default"
    ),
    "torch.hub.load_state_dict_from_url": Difference(
        "a file from an address is read as weights, unless `weights_only=False` says otherwise"
    ),
    "torch.random.fork_rng": Difference(
        "private parameters are left out", ("_caller", "_devices_kw")
    ),
    "torch.distributed.set_debug_level": Difference("the parameter has a name: `level`"),
    "torch.cdist": Difference(
        "`compute_mode` makes no difference: None stands for all of them", ("compute_mode",), 4
    ),
}


def out_of_scope(name: str) -> str:
    """The words of the rule that leaves a name out; empty if none does."""
    for words, pattern, _ in OUT_OF_SCOPE:
        if re.match(pattern, name):
            return words
    return ""


def scope_reason(name: str) -> str:
    """The words of that rule with the reason; empty if no rule leaves the name out."""
    for words, pattern, reason in OUT_OF_SCOPE:
        if re.match(pattern, name):
            return f"{words}: {reason}"
    return ""
