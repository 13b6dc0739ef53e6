"""The rooms of the engine's layers that have any, and the order in which they lie."""

# The rooms of two layers, lowest first: a module imports its own room or a lower one, for type
# checkers too. A room is a folder or a single module.
ROOMS = """
compiler: ir llvm_ir mathlib schedule stages codegen lower kernels.matmul kernels kernels.conv
    kernels.attention kernels.on_device ready_made parallel emit place pipeline verifier aot
runtime: backend donation flush_log native numpy_executor host_steps repair executors devices
    compiled verify tiers batching fibers parts report flush measure
"""


def rooms():
    """{layer: its rooms, lowest first}."""
    found = {}
    for word in ROOMS.split():
        if word.endswith(":"):
            found[word[:-1]] = order = []
        else:
            order.append(word)
    return found


def room_of(module, order=None):
    """(layer, rank, room) of a module in a layer with rooms; rank -1 if it is in none of them."""
    _, engine, layer, *inner = (*module.split("."), "", "", "")
    known = order or rooms()
    if engine != "_engine" or layer not in known or not any(inner):
        return None
    fits = [
        (len(room), rank, room)
        for rank, room in enumerate(known[layer])
        if f"{'.'.join(inner)}.".startswith(room + ".")
    ]
    _, rank, room = max(fits, default=(0, -1, ""))
    return layer, rank, room
