"""demo_mul: y = act(gate) * up. A small op for tests of the loader and of the op functions."""

from tfrewrite.rules import Act, Tensor, op, ref

op("demo_mul(Module act, Tensor gate, Tensor? up, *, str packed='') -> Tensor")


@ref("demo_mul(act, gate, up)")
def two_inputs(act: Act, gate: Tensor, up: Tensor):
    return act(gate) * up


@ref("demo_mul(act, gate_up, packed='gate_up')")
def gate_first(act: Act, gate_up: Tensor):
    gate, up = gate_up.chunk(2, dim=-1)
    return act(gate) * up


@ref("demo_mul(act, gate_up, packed='up_gate')")
def up_first(act: Act, gate_up: Tensor):
    up, gate = gate_up.chunk(2, dim=-1)
    return act(gate) * up


@ref("demo_mul(None, gate, up)")
def no_activation(gate: Tensor, up: Tensor):
    return gate * up
