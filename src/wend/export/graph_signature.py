"""The inputs and outputs of an exported program, each with its kind and name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, TypeAlias

__all__ = [
    "ConstantArgument",
    "CustomObjArgument",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "InputKind",
    "InputSpec",
    "OutputKind",
    "OutputSpec",
    "SymBoolArgument",
    "SymFloatArgument",
    "SymIntArgument",
    "TensorArgument",
]


@dataclass
class TensorArgument:
    """A tensor, by the name of its value in the graph."""

    name: str


@dataclass
class SymIntArgument:
    """An int that the graph computes."""

    name: str


@dataclass
class SymFloatArgument:
    """A float that the graph computes."""

    name: str


@dataclass
class SymBoolArgument:
    """A bool that the graph computes."""

    name: str


@dataclass
class CustomObjArgument:
    """An object of a class of the user's. Wend's programs hold such objects as constants."""

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclass
class ConstantArgument:
    """A value that is no tensor, fixed when the program was exported."""

    name: str
    value: Any


#: Inputs and outputs.
ArgumentSpec: TypeAlias = (
    TensorArgument
    | SymIntArgument
    | SymFloatArgument
    | SymBoolArgument
    | CustomObjArgument
    | ConstantArgument
)


class InputKind(Enum):
    """The origin of an input."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


class OutputKind(Enum):
    """The use of an output."""

    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    USER_INPUT_MUTATION = auto()
    TOKEN = auto()


def _about(spec: InputSpec | OutputSpec) -> str:
    target = "" if spec.target is None else f" target='{spec.target}'"
    return f"{spec.arg.name}: {spec.kind.name}{target}"


@dataclass
class InputSpec:
    """An input: kind, value, the name of the parameter or buffer, and whether a state_dict
    holds the buffer."""

    kind: InputKind
    arg: ArgumentSpec
    target: str | None
    persistent: bool | None = None

    def __post_init__(self) -> None:
        if self.kind is InputKind.BUFFER and self.persistent is None:
            raise AssertionError("InputSpec: a buffer needs `persistent`")

    def __str__(self) -> str:
        kept = "" if self.persistent is None else f" persistent={self.persistent}"
        return _about(self) + kept


@dataclass
class OutputSpec:
    """An output: kind, value, and the name of the tensor that the program writes to."""

    kind: OutputKind
    arg: ArgumentSpec
    target: str | None

    def __str__(self) -> str:
        return _about(self)


@dataclass
class ExportBackwardSignature:
    """Gradients among the outputs, by name. Wend's programs get gradients by `backward`."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclass
class ExportGraphSignature:
    """Inputs: parameters, buffers, constants, arguments. Outputs: writes, then results."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind: InputKind) -> tuple[str, ...]:
        return tuple(s.target for s in self.input_specs if s.kind is kind and s.target is not None)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> tuple[str, ...]:
        """Names of the buffers."""
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """Names of the buffers that a state_dict leaves out."""
        return tuple(
            s.target
            for s in self.input_specs
            if s.kind is InputKind.BUFFER and s.persistent is False and s.target is not None
        )

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """Names of tensors that the function had from elsewhere."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def lifted_custom_objs(self) -> tuple[str, ...]:
        """Names of objects among the inputs: none in Wend's programs."""
        return self._targets(InputKind.CUSTOM_OBJ)

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """Per argument the name, or the value of a constant."""
        return tuple(_shown(s) for s in self.input_specs if s.kind is InputKind.USER_INPUT)

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """Per result the name, or the value of a constant."""
        kinds = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        return tuple(_shown(s) for s in self.output_specs if s.kind in kinds)

    def _by_name(self, kind: InputKind | OutputKind) -> Mapping[str, str]:
        specs: Iterator[Any] = iter([*self.input_specs, *self.output_specs])
        return MappingProxyType({s.arg.name: s.target for s in specs if s.kind is kind})

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """From values of the graph to names of parameters."""
        return self._by_name(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """From values of the graph to names of buffers."""
        return self._by_name(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """From values of the graph to names of constants."""
        return self._by_name(InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self) -> Mapping[str, str]:
        """From values of the graph to names of objects: empty in Wend's programs."""
        return self._by_name(InputKind.CUSTOM_OBJ)

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """From new values to names of the buffers that the program writes them to."""
        return self._by_name(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """From new values to names of the parameters that the program writes them to."""
        return self._by_name(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """From new values to the arguments that the program writes them to."""
        return self._by_name(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """None: a program holds no backward pass."""
        losses = [s.arg.name for s in self.output_specs if s.kind is OutputKind.LOSS_OUTPUT]
        if not losses:
            return None
        return ExportBackwardSignature(
            dict(self._by_name(OutputKind.GRADIENT_TO_PARAMETER)),
            dict(self._by_name(OutputKind.GRADIENT_TO_USER_INPUT)),
            losses[0],
        )

    @property
    def assertion_dep_token(self) -> Mapping[int, str] | None:
        """None: assertions are branches of the graph."""
        return None

    @property
    def input_tokens(self) -> tuple[str, ...]:
        """Tokens that order effects: none in Wend's programs."""
        return tuple(s.arg.name for s in self.input_specs if s.kind is InputKind.TOKEN)

    @property
    def output_tokens(self) -> tuple[str, ...]:
        """Tokens that order effects: none in Wend's programs."""
        return tuple(s.arg.name for s in self.output_specs if s.kind is OutputKind.TOKEN)

    def replace_all_uses(self, old: str, new: str) -> None:
        """Give a value another name wherever the signature says the old name."""
        specs: list[Any] = [*self.input_specs, *self.output_specs]
        for spec in specs:
            if spec.arg.name == old:
                spec.arg.name = new

    def __str__(self) -> str:
        inputs, outputs = (map(str, s) for s in (self.input_specs, self.output_specs))
        return "\n".join(["", "# inputs", *inputs, "", "# outputs", *outputs, ""])


def _shown(spec: InputSpec | OutputSpec) -> Any:
    return spec.arg.value if isinstance(spec.arg, ConstantArgument) else spec.arg.name
