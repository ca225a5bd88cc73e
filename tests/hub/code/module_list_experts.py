# Experts as a list of modules, chosen by mask and gathered by index_add; a shared expert with a gate.
# expect: fused act_mul Expert.forward
# expect: fused linears Expert.forward
# expect: fused act_mul SparseMoe.forward
import torch
import torch.nn.functional as F
from torch import nn


class Expert(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.w1 = nn.Linear(hidden, inner, bias=False)
        self.w2 = nn.Linear(inner, hidden, bias=False)
        self.w3 = nn.Linear(hidden, inner, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, hidden_states):
        current_hidden_states = self.act_fn(self.w1(hidden_states)) * self.w3(hidden_states)
        current_hidden_states = self.w2(current_hidden_states)
        return current_hidden_states


class SparseMoe(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_experts, self.top_k = 4, 2
        self.gate = nn.Linear(16, self.num_experts, bias=False)
        self.experts = nn.ModuleList([Expert(16, 24) for _ in range(self.num_experts)])
        self.shared_expert = Expert(16, 24)
        self.shared_expert_gate = torch.nn.Linear(16, 1, bias=False)

    def forward(self, hidden_states: torch.Tensor):
        batch_size, sequence_length, hidden_dim = hidden_states.shape
        hidden_states = hidden_states.view(-1, hidden_dim)
        router_logits = self.gate(hidden_states)
        routing_weights = F.softmax(router_logits, dim=1, dtype=torch.float)
        routing_weights, selected_experts = torch.topk(routing_weights, self.top_k, dim=-1)
        routing_weights /= routing_weights.sum(dim=-1, keepdim=True)
        routing_weights = routing_weights.to(hidden_states.dtype)
        final_hidden_states = torch.zeros_like(hidden_states)
        expert_mask = F.one_hot(selected_experts, num_classes=self.num_experts).permute(2, 1, 0)
        for expert_idx in range(self.num_experts):
            expert_layer = self.experts[expert_idx]
            idx, top_x = torch.where(expert_mask[expert_idx])
            current_state = hidden_states[None, top_x].reshape(-1, hidden_dim)
            current_hidden_states = (
                expert_layer(current_state) * routing_weights[top_x, idx, None]
            )
            final_hidden_states.index_add_(0, top_x, current_hidden_states.to(hidden_states.dtype))
        shared = self.shared_expert(hidden_states)
        shared = F.sigmoid(self.shared_expert_gate(hidden_states)) * shared
        final_hidden_states = final_hidden_states + shared
        return final_hidden_states.reshape(batch_size, sequence_length, hidden_dim), router_logits


def cases(dtype):
    yield SparseMoe().to(dtype)(torch.randn(2, 5, 16, dtype=dtype))
