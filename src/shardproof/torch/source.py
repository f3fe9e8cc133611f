"""The tensors behind a plan, held weakly and found again at each call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from operator import is_not
from weakref import ReferenceType, ref

from torch import Tensor, nn

from shardproof.errors import ShardproofError
from shardproof.sums.kernels import Format
from shardproof.torch.gradients import format_of_dtype
from shardproof.torch.naming import Named, Parameters, named, without_tensors
from shardproof.torch.reading import Said


class Source:
    """What a caller passed as parameters, without keeping any of it alive."""

    def __init__(self, parameters: Parameters) -> None:
        self._module: ReferenceType[nn.Module] | None = None
        self._listed: tuple[tuple[str, ReferenceType[Tensor]], ...] = ()
        self._by_caller = True
        self._error: ShardproofError | None = None
        if isinstance(parameters, nn.Module):
            self._module = ref(parameters)
            return
        try:
            listed = named(parameters)
        except ShardproofError as error:
            # Raised when the tensors are read, where the other ranks hear of it.
            self._error = error
            return
        self._by_caller = listed.by_caller
        self._listed = tuple((name, ref(tensor)) for name, tensor in listed.tensors)

    @property
    def module(self) -> nn.Module | None:
        """The module, if the caller passed one and it still lives."""
        return None if self._module is None else self._module()

    def tensors(self) -> Named:
        """The tensors that live now; a module is asked again, so new parameters are seen."""
        if self._error is not None:
            raise self._error
        module = self.module
        if module is not None:
            return named(module)
        alive = ((name, each()) for name, each in self._listed)
        return Named(tuple((name, each) for name, each in alive if each is not None), self._by_caller)

    def without_tensors(self, said: Said) -> Said:
        """What the caller says with names in place of tensors, so that it keeps none of them alive."""
        if self._error is not None:
            return said
        listed = self.tensors()
        return replace(
            said,
            placements=without_tensors(said.placements, listed),
            groups=without_tensors(said.groups, listed),
        )

    def formats(self) -> list[Format]:
        """The kernels' formats of the tensors, each once."""
        if self._error is not None:
            return []
        found = (format_of_dtype(tensor.dtype) for _, tensor in self.tensors().tensors)
        return list(dict.fromkeys(each for each in found if each is not None))

    def alive(self) -> bool:
        """Whether nothing of what the caller passed has been freed."""
        if self._module is not None:
            return self._module() is not None
        return all(map(is_not, [each() for _, each in self._listed], repeat(None)))

    def lists(self, held: Sequence[Tensor | None]) -> bool:
        """Whether these, found here when the plan was built, are still, one by one, the tensors that live now."""
        if self._error is not None:
            return False
        if self._module is None:
            # They came from this list, which never changes; it only can lose tensors.
            return all(map(is_not, held, repeat(None)))
        listed = self.tensors().tensors
        return len(listed) == len(held) and all(tensor is each for (_, tensor), each in zip(listed, held, strict=True))
