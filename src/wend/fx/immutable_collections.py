"""Lists and dicts that cannot be changed: arguments of nodes in PyTorch's graphs."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise NotImplementedError(
        f"'{type(self).__name__}' cannot be changed: make a list or dict of it, change that, and "
        "give the result to the node"
    )


class immutable_list(list[Any]):
    """A list that cannot be changed. Raises NotImplementedError."""

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse  # type: ignore[assignment]
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return immutable_list, (tuple(self),)


class immutable_dict(dict[Any, Any]):
    """A dict that cannot be changed. Raises NotImplementedError."""

    __delitem__ = __ior__ = __setitem__ = _refuse  # type: ignore[assignment]
    clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return immutable_dict, (tuple(self.items()),)
