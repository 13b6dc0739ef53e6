"""Convolutions of images, for any sizes, strides, dilations, paddings and groups.

There is a function for each of the three ops that `wend._engine.ops.neural.conv` derives from the
same sum. The call `core(name, dtype)` returns a library with the named function, compiled once per
processor:

    void convolve(ptr args)             out from input and weight
    void convolve_input(ptr args)       input from out and weight: its gradient, or transposed
    void convolve_weight(ptr args)      weight from input and out: its gradient

`args` is an argument block: 64-bit words, a word per name in CONVOLVE, CONVOLVE_INPUT or
CONVOLVE_WEIGHT, in that order. Strides count elements. The result has the accumulators' type (see
`matmul.matmul`), and the operands have the dtype.

ALL THREE
    input weight out        pointers: (N, C, H, W), (F, C/groups, KH, KW), (N, F, OH, OW)
    images groups channels filters      N, groups, C / groups, F / groups
    input_height input_width out_height out_width kernel_height kernel_width
    stride_height stride_width dilation_height dilation_width
    pad_height pad_width    padding in front, below 0 to crop; the rest follows from the extents
    input_image input_channel input_row input_column    strides
    weight_filter           stride; the rest of the weight is dense
    out_image out_channel   strides
    scratch                 `scratch_bytes(dtype)` of memory for this call, aligned to 64 bytes

CONVOLVE    The rows and columns of `out` are dense; the strides of `input` may be any.
    first_column last_column    the positions (oh * OW + ow) to compute; all: 0, OH * OW
    accumulate epilogue state   as in `matmul.matmul`
    bundle                      `bundle_sums(filters, dtype)` of memory for this call
    origin                      the number of the first image, as an epilogue is told
    batch                       the number of images, in all parts of the convolution
    workspace                   `workspace_sums(...)` times as large as the weight
    spread                      `spread_sums(...)` of memory for this call, aligned to 64 bytes
    turned                      1 if `turn_weight(args)` has filled the workspace, else 0; or FIRST
                                or LATER if other calls share the workspace and the weight: words
                                in the FRONT bytes before the workspace tell whether it is filled
    first_filter last_filter    the filters that `turn_weight` transforms; all: 0, filters
    shared                      1 if other convolutions of a plan have the same weight, else 0
    pool                    0, or the words of a pooling of the result: see `winograd.pool`

An epilogue gets tiles of (filters of the group, positions). Its batch0 is the image, and its batch1
is the group.

CONVOLVE_INPUT      The rows and columns of `input` are dense; the strides of `out` may be any.
    out_row out_column      the other strides of `out`
    workspace               twice as large as the weight
    partial                 `partial_sums(...)` of memory for this call; not read with steps of 1
    bundle                  `bundle_sums(channels, dtype)` of memory for this call
    turned                  1 if `turn_weight(args)` has filled the workspace, else 0
    first_filter last_filter    the filters of each group that `turn_weight` turns; all: 0, filters
    batch spread                as above

CONVOLVE_WEIGHT     The rows and columns of `out` are dense; the strides of `input` may be any.
    accumulate              1: add to what is in `weight`, else 0
    workspace               `weight_workspace(...)` bytes, aligned to 64 bytes
    spread                  as above

With a single dim, H = KH = 1. By default `convolve` is a matrix product by im2col: the weight,
(F, C * KH * KW), times the patches of an image, whose panels are packed block by block. Some
convolutions are computed by `conv.winograd`, `conv.padded_image` or `conv.depthwise` instead.
"""

from __future__ import annotations

from typing import Any

from wend._engine.compiler.kernels.conv.depthwise import DirectImage, convolve_direct, weight_direct
from wend._engine.compiler.kernels.conv.im2col import pack_patches
from wend._engine.compiler.kernels.conv.image_batches import most_columns, share_tile
from wend._engine.compiler.kernels.conv.input_gradient import (
    convolve_input,
    scatter_phase,
    turn_weight,
)
from wend._engine.compiler.kernels.conv.padded_image import shifted
from wend._engine.compiler.kernels.conv.patches import ImageBundles, Patches
from wend._engine.compiler.kernels.conv.sizes import ConvolutionSizes, write_variants
from wend._engine.compiler.kernels.conv.weight_gradient import COPIED, convolve_weight, pad_image
from wend._engine.compiler.kernels.conv.winograd.kernel_transform import spread_weight
from wend._engine.compiler.kernels.conv.winograd.pool import pool_functions
from wend._engine.compiler.kernels.conv.winograd.products import winograd
from wend._engine.compiler.kernels.conv.winograd.squares import (
    FIRST,
    FRONT,
    NARROW,
    WIDE,
    has_tiles,
    is_padded,
    spread_words,
)
from wend._engine.compiler.kernels.conv.winograd.tiles_2x2 import (
    Winograd2x2,
    join_image,
    spread_image,
)
from wend._engine.compiler.kernels.conv.winograd.tiles_4x1 import rows_functions
from wend._engine.compiler.kernels.conv.winograd.tiles_4x4 import (
    Winograd4x4,
    has_wide,
    wide_functions,
)
from wend._engine.compiler.kernels.conv.winograd.weight_gradient import winograd_weight
from wend._engine.compiler.kernels.matmul.line_tiles import line_tiles
from wend._engine.compiler.kernels.matmul.macrokernel import arguments, scratch_size
from wend._engine.compiler.kernels.matmul.matmul import accumulator
from wend._engine.compiler.kernels.matmul.microkernel import (
    TileConfig,
    lane_mask,
    masked_load,
    masked_store,
    tiles,
)
from wend._engine.compiler.kernels.matmul.packing import SOURCES, pack_left, pack_right
from wend._engine.compiler.llvm_ir.function import Routine
from wend._engine.compiler.llvm_ir.jit import (
    Library,
    Target,
    cached_by_processor,
    compile_module,
    written_for,
)

_COMMON = (
    "input weight out images groups channels filters "
    "input_height input_width out_height out_width kernel_height kernel_width "
    "stride_height stride_width dilation_height dilation_width pad_height pad_width "
    "input_image input_channel input_row input_column weight_filter out_image out_channel "
)
CONVOLVE = (
    _COMMON + "first_column last_column accumulate epilogue state bundle scratch origin "
    "batch workspace spread turned first_filter last_filter shared pool"
).split()
#: The words of `convolve` that are read where there are no squares of 4 x 4.
_FEWER = CONVOLVE[: CONVOLVE.index("shared")]
CONVOLVE_INPUT = (
    _COMMON + "out_row out_column workspace partial bundle scratch turned first_filter last_filter "
    "batch spread"
).split()
CONVOLVE_WEIGHT = (_COMMON + "accumulate workspace scratch spread").split()

WORDS = {
    "convolve": CONVOLVE,
    "convolve_input": CONVOLVE_INPUT,
    "convolve_weight": CONVOLVE_WEIGHT,
}
#: The words of `add_parts`, a function in the library of `convolve_weight`. `add_parts` writes to
#: `out` the sum of `copies` arrays of `count` elements, stored in order from `parts` on.
ADD_PARTS = "out parts count copies".split()


def _of(dtype: str, target: Target | None) -> TileConfig:
    return TileConfig.of(
        written_for() if target is None else target, SOURCES[accumulator(dtype)][0]
    )


def weight_workspace(channels: Any, filters: Any, taps: Any, area: Any, dtype: str) -> Any:
    """The bytes of the workspace of `convolve_weight`.

    The arguments are numbers, or objects that add and multiply.

    channels, filters: the channels and the filters of a group
    taps: KH * KW
    area: the pixels that the kernel touches, with the padding: (OH - 1) * stride + (KH - 1) *
        dilation + 1 rows, times the same number for the width
    """
    shape = _of(dtype, None)
    rows = channels * taps + shape.rows
    copies = channels * (area + COPIED)
    return rows * 8 + (rows * (filters + shape.lanes) + copies) * shape.size + 128


def partial_sums(channels: Any, positions: Any) -> Any:
    """The number of sums that `convolve_input` keeps until all of the depth has been added.

    The sums are of one phase of one image. In `input` these partial sums would overwrite the
    results of other phases.

    channels: the channels of all groups
    positions: the positions of the largest phase, ceil(H / stride_height) *
        ceil(W / stride_width)
    """
    return channels * positions


def bundle_columns(dtype: str) -> int:
    """The most positions of several images that form a matrix product."""
    return most_columns(_of(dtype, None))


def bundle_sums(rows: Any, dtype: str) -> Any:
    """The number of sums kept for a bundle of images until all of the depth has been added.

    rows: the filters of a group; for the gradient of the input, the channels of a group
    """
    return rows * bundle_columns(dtype)


def spread_sums(name: str, channels: Any, filters: Any, taps: Any, dtype: str) -> Any:
    """The number of sums in the memory `spread` of a convolution.

    channels, filters: the channels and the filters of a group
    taps: KH * KW
    """
    shape = _of(dtype, None)
    sums = (channels + filters) * spread_words(shape)
    if not (name == "convolve" and has_wide(shape, dtype)):
        sums = sums + (channels + shape.lanes) * filters * 2
    return sums * taps


def workspace_sums(name: str, dtype: str, shared: bool = False) -> int:
    """The elements of the workspace of `convolve` or `convolve_input`, per element of the weight.

    shared: whether calls with images of different sizes share the workspace; it then has room for
        the kernels of both kinds of squares
    """
    if name == "convolve" and has_wide(_of(dtype, None), dtype):
        return 6 if shared else 4
    return 2


def keeps_turned(dtype: str) -> bool:
    """Whether several calls of `convolve` may share a workspace, with `turned` FIRST or LATER."""
    shape = _of(dtype, None)
    return has_wide(shape, dtype) or (has_tiles(shape, dtype) and is_padded(shape))


def pools(dtype: str) -> bool:
    """Whether `convolve` is able to pool its result, see `winograd.pool`."""
    return has_wide(_of(dtype, None), dtype)


def scratch_bytes(dtype: str, target: Target | None = None) -> int:
    """The bytes of the memory `scratch` of a convolution, for any sizes."""
    return scratch_size(_of(dtype, target))


def sizes_of(
    name: str, dtype: str, target: Target | None = None, **numbers: int
) -> ConvolutionSizes:
    """Return the sizes of a convolution known before the call, by words of the argument block."""
    shape = _of(dtype, target)
    words = _FEWER if name == "convolve" and not has_wide(shape, dtype) else WORDS[name]
    return ConvolutionSizes.known(shape, dtype, words, **numbers)


@cached_by_processor
def core(name: str, dtype: str) -> Library:
    """Return the library of the function `name`, for this processor. The first call compiles it."""
    return compile_module(core_text(name, dtype), [name])


@cached_by_processor
def core_text(name: str, dtype: str, target: Target | None = None) -> str:
    """Return the text of the LLVM module with the function `name`."""
    shape = _of(dtype, target)
    if name == "convolve_weight":
        texts = [
            tiles(shape),
            pack_right(shape, dtype),
            pack_left(shape, dtype),
            winograd_weight(shape, dtype, CONVOLVE_WEIGHT),
            weight_direct(shape, dtype, CONVOLVE_WEIGHT),
            line_tiles(shape),
            pad_image(shape, dtype, CONVOLVE_WEIGHT),
            convolve_weight(shape, dtype, CONVOLVE_WEIGHT),
            _add_parts(shape),
        ]
        return "\n".join(texts)
    wide = name == "convolve" and has_wide(shape, dtype)
    words = CONVOLVE if wide else _FEWER
    texts = [
        tiles(shape),
        pack_right(shape, dtype),
        pack_left(shape, dtype),
        pack_patches(shape, dtype, words),
        convolve_direct(shape, dtype, words),
        share_tile(shape),
        spread_weight(shape, dtype, words, NARROW),
        spread_image(shape, dtype, words),
        join_image(shape, dtype, words),
        winograd(shape, dtype, words, NARROW),
        shifted(shape, dtype, words),
        _convolve(shape, dtype, words),
    ]
    if name == "convolve":
        texts.append(_turn_weight(shape, dtype, words))
    if wide:
        texts += wide_functions(shape, dtype, words)
        texts += rows_functions(shape, dtype, words)
        texts += pool_functions(shape, words)
    if name == "convolve_input":
        texts += [
            scatter_phase(shape),
            turn_weight(shape, dtype, CONVOLVE_INPUT),
            convolve_input(shape, dtype, CONVOLVE_INPUT, words),
        ]
    return "\n".join(texts)


def _add_parts(shape: TileConfig) -> str:
    f = Routine("add_parts", [("ptr", "args")])
    a = arguments(f, ADD_PARTS, "out parts")
    apart = f.mul(a["count"], str(shape.size))
    with f.loop("0", a["count"], str(shape.lanes)) as i:
        mask = lane_mask(f, shape.lanes, f.sub(a["count"], i))
        offset = f.mul(i, str(shape.size))
        place = f.at(a["parts"], offset)
        first = masked_load(f, shape, place, mask)
        with f.turns("1", a["copies"]) as loop:
            total = loop.carry(shape.vector, first)
            more = masked_load(f, shape, f.at(place, f.mul(loop.index, apart)), mask)
            loop.become(total, f.let(f"fadd {shape.vector} {total}, {more}"))
        masked_store(f, shape, total, f.at(a["out"], offset), mask)
    return f.text()


def _turn_weight(shape: TileConfig, dtype: str, names: list[str]) -> str:
    """The text of `turn_weight`: it transforms kernels before the parts of a convolution run."""
    f = Routine("turn_weight", [("ptr", "args")])
    c = ConvolutionSizes.in_code(f, shape, dtype, arguments(f, names, ""))
    if c.pools:
        with f.when(Winograd4x4.applies(c)):
            f.line("call void @spread_filters_wide(ptr %args)")
            f.leave_when("true")
    with f.when(Winograd2x2.applies(c)):
        f.line("call void @spread_filters(ptr %args)")
    return f.text()


def _convolve(shape: TileConfig, dtype: str, names: list[str]) -> str:
    f = Routine("convolve", [("ptr", "args")])
    a = arguments(f, names, "input weight out epilogue state bundle scratch")
    c = ConvolutionSizes.in_code(f, shape, dtype, a)
    if is_padded(shape) or c.pools:
        with f.when(c["turned"] == FIRST):
            workspace = f.let(f"inttoptr i64 {a['workspace']} to ptr")
            f.store("i64", "0", f.at(workspace, -FRONT), 8)
            if c.pools:
                f.store("i64", "0", f.at(workspace, WIDE.flag - FRONT), 8)
    write_variants("convolve", c)
    if c.pools:
        c.tell_pooled(False)
    _convolve_images(f, shape, dtype, a)
    return f.text()


def _convolve_images(f: Routine, shape: TileConfig, dtype: str, a: dict[str, str]) -> None:
    """Write the loops over images and groups, of which each is a convolution of its own.

    a: the words, with strides in elements
    """
    shared = f.let("alloca [6 x i64], align 8")
    size = SOURCES[dtype][1]
    for name in "input_image input_channel input_row input_column weight_filter".split():
        a[name] = f.mul(a[name], str(size))
    for name in ("out_image", "out_channel"):
        a[name] = f.mul(a[name], str(shape.size))
    c = ConvolutionSizes.in_code(f, shape, dtype, a)
    images = ImageBundles.of(f, c, a, shared)
    with f.loop("0", a["images"], images.together) as image, f.loop("0", a["groups"]) as group:
        site = images.site(image, group)
        with f.when(DirectImage.applies(c)):
            DirectImage.emit(site)
        site.share()
        with f.when(Patches.applies(c)):
            Patches.emit(site)
