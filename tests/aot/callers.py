"""Callers of libraries that `wend.aot.compile` has made: in this process, and in WebAssembly."""

import ctypes
import struct
import subprocess

import numpy as np

from wend._engine.compiler.aot.pattern_code import DTYPES, MOST_DIMS

NULL_SHAPE = (0,) * MOST_DIMS


class CTensor(ctypes.Structure):
    """The header's NAME_tensor."""

    _fields_ = (
        ("shape", ctypes.c_int64 * MOST_DIMS),
        ("nbytes", ctypes.c_int64),
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
    )


class NativeModel:
    """A model of a shared library of this processor."""

    def __init__(self, made, weights=None):
        self.name = made.header.stem
        self.library = ctypes.CDLL(str(made.library))
        self.call("error").restype = ctypes.c_char_p
        self.call("new").restype = ctypes.c_void_p
        self.call("run").argtypes = (ctypes.c_void_p, *[ctypes.c_void_p, ctypes.c_int] * 2)
        for part in ("free", "release"):
            self.call(part).argtypes = (ctypes.c_void_p,)
        self.model = self.call("new")(str(weights or made.weights).encode())
        if not self.model:
            raise RuntimeError(self.error())

    def call(self, part):
        return getattr(self.library, f"{self.name}_{part}")

    def error(self):
        return self.call("error")().decode()

    def __call__(self, *arrays, outputs=1):
        """The outputs as arrays."""
        arrays = [np.ascontiguousarray(a) for a in arrays]
        rows = [(a.shape, a.dtype.name, a.ctypes.data) for a in arrays]
        found = self.call_with(rows, outputs)
        return found if outputs != 1 else found[0]

    def call_with(self, rows, outputs):
        """The outputs for inputs as (shape, name of the element type, address)."""
        given = (CTensor * max(1, len(rows)))()
        for row, (shape, dtype, place) in zip(given, rows):
            row.shape[: len(shape)] = shape
            row.data, row.ndim, row.dtype = place, len(shape), DTYPES.index(dtype)
        made = (CTensor * outputs)()
        code = self.call("run")(self.model, given, len(rows), made, outputs)
        if code:
            self.code = code
            raise RuntimeError(self.error())
        found = []
        for row in made:
            dtype = np.dtype(DTYPES[row.dtype])
            content = ctypes.string_at(row.data, row.nbytes)
            found.append(np.frombuffer(content, dtype).reshape(row.shape[: row.ndim]))
            self.call("release")(ctypes.byref(row))
        return found

    def free(self):
        self.call("free")(self.model)


class WasmModel:
    """A model of a module of WebAssembly, run by wasmtime."""

    TENSOR = struct.Struct(f"<{MOST_DIMS}qqIiixxxx")

    def __init__(self, made):
        import wasmtime

        self.name = made.header.stem
        engine = wasmtime.Engine()
        self.store = wasmtime.Store(engine)
        self.store.set_wasi(wasmtime.WasiConfig())
        linker = wasmtime.Linker(engine)
        linker.define_wasi()
        module = wasmtime.Module.from_file(engine, str(made.library))
        self.exports = linker.instantiate(self.store, module).exports(self.store)
        self.memory = self.exports["memory"]
        self.exports["_initialize"](self.store)
        content = made.weights.read_bytes()
        self.model = self.call("new_from_memory", self.put(content), len(content))
        if not self.model:
            raise RuntimeError(self.error())

    def call(self, part, *args):
        return self.exports[f"{self.name}_{part}"](self.store, *args)

    def put(self, content):
        place = self.call("allocate", max(8, len(content)))
        self.memory.write(self.store, content, place)
        return place

    def get(self, place, size):
        return bytes(self.memory.read(self.store, place, place + size))

    def error(self):
        return self.get(self.call("error"), 512).split(b"\0")[0].decode()

    def __call__(self, *arrays):
        """The only output."""
        rows = b""
        for array in arrays:
            shape = (*array.shape, *NULL_SHAPE)[:MOST_DIMS]
            data = self.put(np.ascontiguousarray(array).tobytes())
            kind = DTYPES.index(array.dtype.name)
            rows += self.TENSOR.pack(*shape, array.nbytes, data, kind, array.ndim)
        out = self.put(bytes(self.TENSOR.size))
        if self.call("run", self.model, self.put(rows), len(arrays), out, 1):
            raise RuntimeError(self.error())
        *shape, nbytes, data, kind, ndim = self.TENSOR.unpack(self.get(out, self.TENSOR.size))
        found = np.frombuffer(self.get(data, nbytes), DTYPES[kind])
        return found.reshape(shape[:ndim])


class ProgramModel:
    """A model in a program of its own, run under an emulator.

    command: the words before the program's arguments
    """

    def __init__(self, made, command, folder):
        self.made, self.command, self.folder = made, command, folder

    def __call__(self, *arrays):
        """The only output."""
        files = []
        for k, array in enumerate(arrays):
            row = CTensor(nbytes=array.nbytes, dtype=DTYPES.index(array.dtype.name))
            row.shape[: array.ndim], row.ndim = array.shape, array.ndim
            files.append(self.folder / f"input{k}")
            files[-1].write_bytes(bytes(row) + np.ascontiguousarray(array).tobytes())
        result = self.folder / "result"
        words = [*self.command, self.made.weights, result, *files]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        content = result.read_bytes()
        row = CTensor.from_buffer_copy(content)
        found = np.frombuffer(content[ctypes.sizeof(CTensor) :], DTYPES[row.dtype])
        return found.reshape(row.shape[: row.ndim])
