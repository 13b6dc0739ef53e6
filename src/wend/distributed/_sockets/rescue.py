"""After the loss of a rank: the living ranks agree on the work done, and go on with fewer.

A collective that was under way is done in all ranks or in none. Each line counts its collectives,
and two ranks differ by a single collective at most. If some rank has the result, that rank
hands the result to the rest. If no rank has the result, the living ranks begin again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from wend.distributed._engine import Channel
from wend.distributed._sockets.mesh import Mesh, PeerLost
from wend.distributed._wire._faults import DistBackendError
from wend.distributed._wire._transport import Array

__all__ = ["Rescue"]


class Rescue:
    """The ranks of a run that live.

    members: their numbers at the start   meeting: asks the launcher for the ranks that live
    shrunk: is called with the members before and now, after a loss
    """

    def __init__(
        self,
        mesh: Mesh,
        members: Sequence[int],
        meeting: Any,
        shrunk: Callable[[Sequence[int], Sequence[int]], None],
        epoch: int = 0,
    ) -> None:
        self.mesh, self.members = mesh, tuple(members)
        self.meeting, self.shrunk = meeting, shrunk
        self.epoch = epoch
        self.broken = False
        self.lines: list[Any] = []
        self.lock = threading.Lock()

    def add(self, line: Any) -> None:
        """Count the collectives of a line from now on."""
        with self.mesh.changed:
            line.epoch = self.epoch
            self.lines.append(line)

    def remove(self, line: Channel) -> None:
        """Forget a line."""
        with self.mesh.changed:
            if line in self.lines:
                self.lines.remove(line)

    def enter(self, line: Any) -> None:
        """Begin a collective, or begin again: with the ranks that live."""
        with self.mesh.changed:
            line.busy, line.epoch = True, self.epoch
            line.take_news()

    def look(self, line: Any) -> None:
        """Raise PeerLost if the ranks have to agree first; the mesh's lock is held."""
        if line.epoch != self.epoch or self.is_due():
            raise PeerLost(-1)

    def is_due(self) -> bool:
        """Whether a rank is lost, and the living ranks have to agree; the mesh's lock is held.

        Also for a line without the lost rank: all living ranks have to meet.
        """
        return self.broken or not self.mesh.lost.isdisjoint(self.members)

    def complete(self, line: Any, shared: Array | None) -> bool:
        """Count a collective as done; False if the ranks have to agree first."""
        kept = None if shared is None else shared.tobytes()
        with self.mesh.changed:
            if self.broken or line.epoch != self.epoch:
                return False
            line.done += 1
            line.result = line.took_part(), kept
            return True

    def recover(self, epoch: int) -> None:
        """Agree with all living ranks; a single thread does so after each loss."""
        with self.lock:
            if self.epoch != epoch:
                return
            with self.mesh.changed:
                self.broken = True  # from here on nothing is completed
                done = {line.name: line.done for line in self.lines}
                self.mesh.changed.notify_all()
            answer = self.meeting.meet(epoch + 1, {"done": done})
            if not all("done" in row for row in answer["rows"].values()):
                raise self.give_up("a rank was lost at the beginning, before all had connections")
            rows = {int(member): row["done"] for member, row in answer["rows"].items()}
            before, now = self.members, tuple(sorted(rows))
            self.shrunk(before, now)
            with self.mesh.changed:
                self.members = now
                self.mesh.lost |= set(before) - set(now)
                self.mesh.forget({line.context(epoch) for line in self.lines})
                self.epoch += 1
                for line in self.lines:
                    line.tell_news(rows)
                served = [  # a line may go on meanwhile, and have a further result
                    (line, peer, line.done, line.result)
                    for line in self.lines
                    for peer in line.behind(rows)
                ]
                self.broken = False
                self.mesh.changed.notify_all()
            for line, peer, number, result in served:
                try:
                    line.hand_result(peer, self.epoch, number, result)
                except PeerLost:  # a further rank is lost: the next collective sees so
                    continue  # the next collective sees the loss

    def give_up(self, text: str) -> DistBackendError:
        """The error of a collective that cannot be done again; the launcher ends all ranks."""
        error: DistBackendError = self.meeting.give_up(text)
        return error
