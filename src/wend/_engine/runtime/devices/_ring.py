# mypy: ignore-errors
# cython: auto_pickle=False
"""Argument blocks of launches, and the launches themselves: what runs for each call of a step.

Compiled by Cython with the types in `_ring.pxd`; runs as plain Python too, on the stand-ins of
`_ring_select`.
"""

# Words of the facts about a function: the driver's handle, and what `device_nest.Launch` has. The
# last is the number of sizes; their words and units follow.
HANDLE = 0
ITEMS = 1
PER_GROUP = 2
WORDS = 3
SIZES = 4
# Bytes of a call, see `_pool.h`, and of a launch in the list: the function's handle, bytes from the
# beginning of the ring to the argument, groups, items of each group, and the function's number.
CALL = 40
LAUNCH = 40


class Ring:
    """Memory for the argument blocks of launches, and the launches that wait for the driver.

    address, size: of the memory, in bytes
    next: bytes in use
    launches: the address of the list     most: launches that it has room for     count: in the list
    most_groups: of a call: each goes on with later turns
    at: address of the next call     left: calls of its round still to come, 0 at the begin of one
    """

    def __init__(self, address, size, launches, most, most_groups):
        self.address, self.size, self.launches, self.most = address, size, launches, most
        self.most_groups = most_groups
        self.next = self.count = self.at = self.left = 0

    def add_rounds(self, end, functions, scratch, guard):
        """Append a launch for each round of calls from `at` on: as far as there is room.

        A round is of calls of one function, which may run side by side.
        end: address behind the last call
        functions: address of a row of addresses: the facts about each function
        scratch: address of scratch memory for the calls
        guard: address of a word; the launches do nothing if the word is not 0
        """
        while self.at < end:
            if self.left == 0:
                self.left = get(self.at + 16)
            if not self.add_round(functions, scratch, guard):
                return

    def add_round(self, functions, scratch, guard):
        """Append a launch for a round, or for a part if the ring is too small; False: no room."""
        number = get(self.at)
        facts = get(functions + 8 * number)
        size = 8 * get(facts + 8 * WORDS)
        n = self.room(size)
        if n < self.left and (n < 1 or self.next > 0):
            return False
        n = min(n, self.left)
        rows = 0
        for k in range(n):
            call = self.at + CALL * k
            use_scratch(call, scratch)
            rows += groups_of(get(call + 8), facts, self.most_groups) > 0
        if rows > 0:
            head = self.begin(rows, guard)
            place = head + 8 * (2 * rows + 3)
            row, first = self.address + head + 16, 0
            for k in range(n):
                block = get(self.at + CALL * k + 8)
                groups = groups_of(block, facts, self.most_groups)
                if groups > 0:
                    put(row, first)
                    put(row + 8, place)
                    copy(self.address + place, block, size)
                    first += groups
                    place += size
                    row += 16
            self.end(row, first, place, head, number, facts)
        self.at += CALL * n
        self.left -= n
        return True

    def add(self, number, block, size, groups, functions, guard):
        """Append a launch of one call of a function by so many groups; False: no room.

        block, size: address and bytes of the argument block     functions, guard: see `add_rounds`
        """
        if self.room(size) < 1:
            return False
        head = self.begin(1, guard)
        place, row = head + 40, self.address + head + 16
        put(row, 0)
        put(row + 8, place)
        copy(self.address + place, block, size)
        self.end(
            row + 16,
            min(groups, self.most_groups),
            place + size,
            head,
            number,
            get(functions + 8 * number),
        )
        return True

    def room(self, size):
        """How many calls with blocks of so many bytes the next launch may have."""
        if self.count == self.most:
            return 0
        return max(0, self.size - self.next - 24) // (16 + size)

    def begin(self, rows, guard):
        """Begin the argument of a launch of so many calls; return the place."""
        put(self.address + self.next, guard)
        put(self.address + self.next + 8, rows)
        return self.next

    def end(self, row, groups, place, head, number, facts):
        """End the argument of a launch, and append the launch.

        row: address of the word behind the rows     place: bytes in use     head: the argument's
        """
        put(row, groups)
        self.next = (place + 63) // 64 * 64
        at = self.launches + LAUNCH * self.count
        put(at, get(facts + 8 * HANDLE))
        put(at + 8, head)
        put(at + 16, groups)
        put(at + 24, get(facts + 8 * ITEMS))
        put(at + 32, number)
        self.count += 1


def use_scratch(call, scratch):
    """Enter the addresses of a call's scratch memory into the call's argument block."""
    pairs = get(call + 24)
    for j in range(get(call + 32)):
        pair = pairs + 16 * j
        put(get(pair), scratch + get(pair + 8))


def groups_of(block, facts, most):
    """How many groups a call is launched by, `most` at most: 0 if there is nothing to do."""
    turns = 1
    for j in range(get(facts + 8 * SIZES)):
        size = facts + 8 * (SIZES + 1 + 2 * j)
        unit = get(size + 8)
        turns *= (get(block + 8 * get(size)) + unit - 1) // unit
    if turns > 0 and get(facts + 8 * PER_GROUP) == 0:
        items = get(facts + 8 * ITEMS)
        turns = (turns + items - 1) // items
    return min(turns, most)


def by_opencl(set_arg, enqueue, queue, launches, n):
    """Enqueue n launches of a list; return the status of the first that fails, or 0.

    set_arg, enqueue: addresses of clSetKernelArg and clEnqueueNDRangeKernel
    queue: the handle of the queue     launches: the address of the first
    """
    return launch_opencl(set_arg, enqueue, queue, launches, n)


def by_cuda(function, stream, ring, launches, n):
    """Launch n launches of a list; return the status of the first that fails, or 0.

    function: address of cuLaunchKernel     stream: its handle     ring: the address of the ring
    launches: the address of the first
    """
    return launch_cuda(function, stream, ring, launches, n)
