"""Results of programs as plain arrays, and what differs between two of them."""

import numpy as np

try:
    import torch
    import torch.utils.checkpoint
except ImportError:  # the comparisons with PyTorch are left out
    torch = None


def plain(result):
    """Tensors as arrays, inside of any nesting."""
    if isinstance(result, (list, tuple)):
        return [plain(r) for r in result]
    if isinstance(result, dict):
        return {k: plain(r) for k, r in result.items()}
    if hasattr(result, "detach"):
        return np.asarray(result.detach().numpy())
    return result


def check(found, wanted, where="result"):
    """Raise AssertionError that says where two plain results differ."""
    if isinstance(wanted, list):
        assert isinstance(found, list), f"{where}: {found!r} is no list"
        assert len(found) == len(wanted), f"{where}: {len(found)} entries, wanted {len(wanted)}"
        for i, (f, w) in enumerate(zip(found, wanted, strict=True)):
            check(f, w, f"{where}[{i}]")
    elif isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), where
        for key in wanted:
            check(found[key], wanted[key], f"{where}[{key!r}]")
    elif isinstance(wanted, np.ndarray):
        assert isinstance(found, np.ndarray), f"{where}: {found!r} is no array"
        assert found.shape == wanted.shape, f"{where}: {found.shape}, wanted {wanted.shape}"
        assert found.dtype == wanted.dtype, f"{where}: {found.dtype}, wanted {wanted.dtype}"
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=where)
    else:
        assert found == wanted, f"{where}: {found!r}, wanted {wanted!r}"


#: Kinds of errors that programs tell apart.
KINDS = (NotImplementedError, TypeError, IndexError, ValueError, RuntimeError, AssertionError)


def outcome(program, lib):
    """What a program of a library gives, as plain arrays; or the kinds of the error it raises."""
    try:
        return plain(program(lib))
    except KINDS as error:
        return tuple(kind for kind in KINDS if isinstance(error, kind))


def check_outcomes(program, ours, theirs):
    """Raise AssertionError unless a program gives the same in both libraries.

    An error of ours may be of further kinds, too.
    """
    found, wanted = outcome(program, ours), outcome(program, theirs)
    if isinstance(wanted, tuple) or isinstance(found, tuple):
        both = isinstance(wanted, tuple) and isinstance(found, tuple)
        assert both and set(wanted) <= set(found), f"{found}, wanted {wanted}"
    else:
        check(found, wanted)
