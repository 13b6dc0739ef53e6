"""Convolutions to test with: geometries, operands, and what comes out, tap by tap in NumPy."""

import ctypes
import itertools

import ml_dtypes
import numpy as np
from products import aligned, words

from wend._engine.compiler.kernels.conv import forward as conv
from wend._engine.compiler.kernels.matmul import matmul

# fmt: off
# images, channels, filters, size, kernel, stride, dilation, padding, groups
GEOMETRIES = [
    (2, 3, 8, (9, 9), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    (1, 16, 10, (8, 70), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),  # rows longer than a panel
    (1, 70, 9, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),  # two blocks of depth
    (1, 2, 70, (3, 600), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    (1, 2, 3, (3, 60), (3, 3), (3, 3), (1, 1), (1, 1, 1, 1), 1),
    (1, 2, 3, (20, 21), (13, 13), (1, 2), (1, 1), (6, 6, 6, 6), 1),  # too many taps for a table
    (1, 1, 400, (3, 5), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),  # two chunks of filters
    (2, 4, 6, (10, 11), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), 2),
    (1, 8, 8, (12, 13), (5, 5), (3, 3), (1, 1), (2, 2, 2, 2), 8),
    (2, 6, 4, (15, 17), (3, 3), (1, 1), (2, 2), (2, 2, 2, 2), 1),
    (2, 6, 4, (15, 17), (3, 3), (2, 2), (2, 2), (2, 2, 2, 2), 1),
    (1, 6, 4, (15, 17), (3, 2), (3, 2), (2, 3), (0, 1, 2, 1), 1),
    (1, 3, 4, (17, 16), (4, 4), (4, 2), (6, 1), (2, 3, 1, 0), 1),
    (2, 20, 33, (9, 9), (1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 1),  # a product as it stands
    (2, 20, 33, (9, 9), (1, 1), (2, 2), (1, 1), (0, 0, 0, 0), 1),
    (1, 3, 5, (6, 6), (7, 7), (1, 1), (1, 1), (3, 3, 3, 3), 1),
    (1, 2, 3, (40, 3), (3, 1), (1, 1), (1, 1), (1, 0, 1, 0), 1),
    (1, 3, 2, (1, 50), (1, 5), (1, 2), (1, 1), (0, 2, 0, 2), 1),  # one dim
    (1, 3, 2, (9, 9), (3, 3), (1, 1), (1, 1), (-1, 0, 2, -2), 1),  # cropped
    (1, 2, 2, (2, 2), (2, 2), (1, 1), (1, 1), (3, 3, 3, 3), 1),  # windows that see padding only
    (0, 3, 4, (5, 5), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    (1, 3, 4, (3, 5), (3, 3), (5, 5), (1, 1), (0, 0, 0, 0), 1),  # phases that no tap meets
    (2, 5, 300, (6, 7), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), 1),  # a phase of two blocks of depth
    (2, 10, 600, (6, 7), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), 2),
    (5, 130, 11, (9, 7), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),  # bundles of images
    (17, 4, 6, (4, 4), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    (5, 140, 520, (7, 8), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), 1),
    (7, 12, 10, (6, 5), (1, 1), (1, 1), (1, 1), (0, 0, 0, 0), 2),
    (1, 110, 9, (10, 79), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),  # two copies of rows
    # Transformed, if there are filters enough of what is computed.
    (3, 17, 16, (13, 16), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    (7, 32, 49, (13, 8), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    (2, 49, 65, (11, 40), (3, 3), (1, 1), (1, 1), (0, 3, 2, -1), 1),
]
# fmt: on


class Case:
    """One geometry: random operands, and the three results tap by tap, in float64."""

    def __init__(self, geometry, dtype="float32"):
        n, c, f, self.size, self.kernel, self.stride, self.dilation, padding, self.groups = geometry
        self.low, self.high = padding[:2], padding[2:]
        self.dtype = dtype
        kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
        rng = np.random.default_rng(0)
        self.x = rng.normal(size=(n, c, *self.size)).astype(kind)
        self.w = rng.normal(size=(f, c // self.groups, *self.kernel)).astype(kind)
        self.reach = [size + a + b for size, a, b in zip(self.size, self.low, self.high)]
        self.out = [
            (whole - d * (k - 1) - 1) // s + 1
            for whole, d, k, s in zip(self.reach, self.dilation, self.kernel, self.stride)
        ]
        self.g = rng.normal(size=(n, f, *self.out)).astype(kind)

    def taps(self, padded):
        """For each tap, what the windows see there."""
        for tap in itertools.product(*map(range, self.kernel)):
            places = [
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, n, s in zip(tap, self.dilation, self.out, self.stride)
            ]
            view = padded[(slice(None), slice(None), *places)]
            yield tap, view.reshape(len(view), self.groups, self.w.shape[1], *self.out)

    def inside(self):
        """Where the image lies in the padded one, and the part of the image that is there."""
        cut = [(max(0, -a), n - max(0, -b)) for n, a, b in zip(self.size, self.low, self.high)]
        part = [slice(*c) for c in cut]
        place = [slice(max(0, a), max(0, a) + c[1] - c[0]) for a, c in zip(self.low, cut)]
        return (slice(None), slice(None), *place), (slice(None), slice(None), *part)

    def padded(self):
        whole = np.zeros((*self.x.shape[:2], *self.reach))
        place, part = self.inside()
        whole[place] = self.x[part]
        return whole

    def split(self, array):
        """Filters by group: (groups, F / groups, ...), behind the images if there are any."""
        array = array.astype(np.float64)
        if array.shape[1:] == self.g.shape[1:]:
            return array.reshape(len(array), self.groups, len(self.w) // self.groups, *self.out)
        return array.reshape(self.groups, -1, *array.shape[1:])

    def forward(self):
        w = self.split(self.w)
        y = sum(
            np.einsum("nacij,afc->nafij", view, w[:, :, :, kh, kw])
            for (kh, kw), view in self.taps(self.padded())
        )
        return y.reshape(self.g.shape)

    def to_weight(self):
        found = np.zeros(self.w.shape)
        by_group = self.split(found)
        for (kh, kw), view in self.taps(self.padded()):
            by_group[:, :, :, kh, kw] = np.einsum("nacij,nafij->afc", view, self.split(self.g))
        return by_group.reshape(self.w.shape)

    def to_input(self):
        whole = np.zeros((*self.x.shape[:2], *self.reach))
        w, g = self.split(self.w), self.split(self.g)
        for (kh, kw), view in self.taps(whole):
            view += np.einsum("nafij,afc->nacij", g, w[:, :, :, kh, kw])
        found = np.zeros(self.x.shape)
        place, part = self.inside()
        found[part] = whole[place]
        return found

    def block(self, names, x, w, g, **more):
        """The argument block for arrays in place of the three operands."""
        pairs = {
            "input": self.size,
            "out": self.out,
            "kernel": self.kernel,
            "stride": self.stride,
            "dilation": self.dilation,
            "pad": self.low,
        }
        given = {
            f"{name}_{side}": pair[i]
            for name, pair in pairs.items()
            for i, side in enumerate(("height", "width"))
        }
        for name, array in (("input", x), ("out", g)):
            sides = ("image", "channel", "row", "column")
            steps = zip(sides, array.strides, strict=True)
            given |= {f"{name}_{side}": step // array.itemsize for side, step in steps}
        self.scratch = aligned(conv.scratch_bytes(self.dtype), np.uint8)
        given |= {
            "input": x.ctypes.data,
            "weight": w.ctypes.data,
            "out": g.ctypes.data,
            "images": len(self.x),
            "groups": self.groups,
            "channels": self.w.shape[1],
            "filters": len(self.w) // self.groups,
            "weight_filter": w[0].size,
            "last_column": self.out[0] * self.out[1],
            "last_filter": len(self.w) // self.groups,
            "scratch": self.scratch.ctypes.data,
        }
        given |= more
        return words(names, **{name: given[name] for name in names if name in given})

    def sums(self, shape, fill=7):
        return np.full(shape, fill, matmul.accumulator(self.dtype))

    def bundle(self, rows):
        """Room for the sums of several images."""
        return self.sums(conv.bundle_sums(rows, self.dtype), np.nan)

    def transformed(self, name):
        """Room for the weight and for images, transformed."""
        sizes = len(self.w) // self.groups, *self.w.shape[1:]
        spread = conv.spread_sums(name, *sizes[:2], sizes[2] * sizes[3], self.dtype)
        kind = matmul.accumulator(self.dtype)
        sums = conv.workspace_sums(name, self.dtype)
        self.room = aligned(sums * self.w.size, kind), aligned(spread, kind)
        for array in self.room:
            array[:] = np.nan
        places = [array.ctypes.data for array in self.room]
        return dict(zip(("workspace", "spread"), places, strict=True)) | {"batch": len(self.x)}

    def convolve(self, x=None, **more):
        out = self.sums(self.g.shape)
        bundle = self.bundle(len(self.w) // self.groups)
        more = self.transformed("convolve") | {"bundle": bundle.ctypes.data} | more
        block = self.block(conv.CONVOLVE, self.x if x is None else x, self.w, out, **more)
        return run("convolve", self.dtype, block, out)

    def convolve_input(self, g=None):
        out = self.sums(self.x.shape)
        g = self.g if g is None else g
        phase = [-(-n // s) for n, s in zip(self.size, self.stride, strict=True)]
        partial = self.sums(conv.partial_sums(self.x.shape[1], phase[0] * phase[1]), np.nan)
        bundle = self.bundle(self.w.shape[1])
        more = {"partial": partial.ctypes.data, "bundle": bundle.ctypes.data}
        more |= self.transformed("convolve_input")
        block = self.block(conv.CONVOLVE_INPUT, out, self.w, g, **more)
        return run("convolve_input", self.dtype, block, out)

    def convolve_weight(self, x=None, **more):
        out = self.sums(self.w.shape)
        touched = [
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip(self.out, self.stride, self.kernel, self.dilation)
        ]
        filters, taps = len(self.w) // self.groups, self.kernel[0] * self.kernel[1]
        size = conv.weight_workspace(
            self.w.shape[1], filters, taps, touched[0] * touched[1], self.dtype
        )
        workspace = aligned(size, np.uint8)
        workspace[:] = 255  # not a number
        more = self.transformed("convolve_weight") | more | {"workspace": workspace.ctypes.data}
        del more["batch"]
        x = self.x if x is None else x
        block = self.block(conv.CONVOLVE_WEIGHT, x, out, self.g, **more)
        return run("convolve_weight", self.dtype, block, out)


def layouts(array):
    """The same numbers: dense, backwards, and with the channels last."""
    yield array
    yield np.ascontiguousarray(array[:, :, ::-1, ::-1])[:, :, ::-1, ::-1]
    yield np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def negate(f, site):
    """-sums into out[image, group * filters + filter, position]."""
    lanes = matmul.lanes("float32")
    kind = f"<{lanes} x float>"
    out = f.load("ptr", site.state)
    image, group, channel = (f.load("i64", f.at(site.state, 8 * i)) for i in (1, 2, 3))
    place = f.add(f.mul(site.batch0, image), f.mul(site.batch1, group))
    place = f.add(f.add(place, f.mul(site.row, channel)), site.column)
    x = f.let(f"fneg {kind} {site.sums}")
    f.line(
        f"call void @llvm.masked.store.v{lanes}f32.p0({kind} {x}, "
        f"ptr {f.at(out, f.mul(place, '4'))}, i32 4, <{lanes} x i1> {site.mask})"
    )


def large_squares():
    """Images that are computed in squares of 4 x 4 where there are such."""
    for n, size, padding in [
        (1, (24, 37), (1, 1, 1, 1)),
        (3, (15, 13), (0, 2, 3, 1)),
        (5, (5, 61), (1, 1, 1, 1)),
        (1, (64, 7), (0, 0, 0, 0)),
        (2, (21, 21), (-1, 4, 2, -2)),
        (11, (4, 16), (2, 2, 2, 2)),
        (1, (40, 40), (1, 1, 1, 1)),
    ]:
        yield Case((n, 21, 27, size, (3, 3), (1, 1), (1, 1), padding, 1))
    for filters in (16, 19):  # of a last panel one vector is filled
        yield Case((1, 18, filters, (34, 15), (3, 3), (1, 1), (1, 1), (1,) * 4, 1))


#: Groups of few filters and channels: planes of several tiles, rows in pieces, phases of strides,
#: rows of taps that no row of the image meets, and kernels for which there is no room.
FEW_FILTERS = [
    (1, 6, 6, (41, 70), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 6),
    (2, 4, 4, (50, 61), (5, 3), (2, 2), (1, 1), (2, 1, 1, 2), 4),
    (1, 2, 6, (2, 96), (5, 5), (1, 1), (1, 1), (2, 2, 2, 2), 2),
    (1, 8, 4, (9, 40), (4, 5), (3, 2), (2, 3), (3, 0, 5, 7), 4),
    (1, 4, 2, (11, 14), (3, 3), (2, 3), (3, 2), (-1, 4, 3, -2), 2),
    (1, 2, 2, (1, 1500), (1, 7), (1, 1), (1, 4), (0, 9, 0, 3), 2),
    (1, 2, 2, (3, 1400), (2, 9), (1, 2), (1, 1), (0, 4, 1, 4), 2),
    (1, 2, 2, (4, 2000), (3, 3), (1, 1), (1, 900), (1, 5, 1, 9), 2),
    (1, 3, 1, (30, 33), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
]


def few_channels():
    """Images that are transformed along their columns where that is done."""
    for n, channels, filters, size, padding in [
        (1, 3, 16, (24, 37), (1, 1, 1, 1)),
        (1, 3, 16, (86, 86), (1, 1, 1, 1)),
        (2, 3, 8, (30, 30), (1, 1, 1, 1)),
        (1, 1, 9, (18, 25), (0, 0, 0, 0)),
        (1, 5, 13, (13, 40), (0, 2, 3, 1)),
        (1, 15, 64, (20, 23), (-1, 4, 2, -2)),
        (1, 16, 11, (12, 16), (1, 1, 1, 1)),
        (3, 2, 34, (8, 28), (2, 2, 2, 2)),
    ]:
        yield Case((n, channels, filters, size, (3, 3), (1, 1), (1, 1), padding, 1))


def run(name, dtype, block, out):
    conv.core(name, dtype).function(name, ctypes.c_void_p)(block.ctypes.data)
    return out


def near(got, want, dtype="float32", terms=1000):
    unit = np.finfo(matmul.accumulator(dtype)).eps
    np.testing.assert_allclose(got, want, rtol=0, atol=unit * terms**0.5 * 40)
