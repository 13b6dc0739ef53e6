"""Objects that are listed while others hold them."""

import sys
import threading

from wend._engine.base.weak_objects import WeakObjects


class Thing:
    def __eq__(self, other):
        return isinstance(other, Thing)

    __hash__ = None


def test_objects_are_told_apart_by_identity_and_not_kept():
    things: WeakObjects[Thing] = WeakObjects()
    one, two = Thing(), Thing()
    for thing in (one, two, one):
        things.add(thing)
    assert [id(t) for t in things.alive()] == [id(one), id(two)]
    del two
    assert [id(t) for t in things.alive()] == [id(one)]
    things.discard(one)
    things.discard(one)
    assert things.alive() == []
    things.add(one)
    things.clear()
    assert things.alive() == []


def test_the_list_may_be_read_while_other_threads_add_and_drop():
    """Found in a long run: a set that was copied while it grew raised RuntimeError."""
    things: WeakObjects[Thing] = WeakObjects()
    first = Thing()
    things.add(first)
    stop = threading.Event()

    def change():
        while not stop.is_set():
            some = [Thing() for _ in range(50)]
            for thing in some:
                things.add(thing)
            for thing in some[::2]:
                things.discard(thing)

    threads = [threading.Thread(target=change) for _ in range(3)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(2000):
            assert any(t is first for t in things.alive())
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
