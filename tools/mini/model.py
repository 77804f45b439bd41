"""The forward pass of lily-mini for training, over rows of equal length."""

import torch
import torch.nn.functional as F

from architecture import EMBEDDING, FINAL_NORM, HEAD, layer_name
from delta_rule import delta_rule
from layers import attention_functions, delta_functions, head_function, norm


def embedding_gradient(ids, gradient, rows):
    """As a product with a one-hot matrix: no sort, always the same sum, and it can be captured in a CUDA
    graph."""
    return (ids[:, None] == torch.arange(rows, device=ids.device)).to(gradient.dtype).t() @ gradient


class Embedding(torch.autograd.Function):
    """Rows of a table."""

    @staticmethod
    def forward(context, ids, table):
        context.save_for_backward(ids)
        context.rows = table.shape[0]
        return table[ids]

    @staticmethod
    def backward(context, gradient):
        return None, embedding_gradient(context.saved_tensors[0], gradient, context.rows)


class Model:
    """`weights` maps tensor names to tensors, which may change in place between calls. `fast` means a GPU
    with fla-core and its fused kernels."""

    def __init__(self, architecture, weights, fast, compiled_parts=()):
        self.architecture, self.weights, self.fast = architecture, weights, None
        self.delta_before, self.delta_after = delta_functions(architecture)
        self.attention_before, self.attention_after = attention_functions(architecture)
        self.head = head_function(architecture)
        for part in compiled_parts:
            setattr(self, part, torch.compile(getattr(self, part), dynamic=False))
        if fast:  # its kernels can be imported on a GPU only
            import fast_delta_rule

            self.fast = fast_delta_rule

    def named(self, prefix, names):
        return [self.weights[prefix + name] for name in names]

    def expert_weights(self, layer):
        name = layer_name(layer)
        return [
            self.weights[name + "post_attention_layernorm.weight"],
            *self.named(
                name + "mlp.",
                (
                    "gate.weight",
                    "experts.gate_up_proj",
                    "experts.down_proj",
                    "shared_expert.gate_proj.weight",
                    "shared_expert.up_proj.weight",
                    "shared_expert.down_proj.weight",
                    "shared_expert_gate.weight",
                ),
            ),
        ]

    def attention(self, layer, x, position, rows):
        a, name = self.architecture, layer_name(layer)
        own = name + "self_attn."
        q, k, v, gate = self.attention_before(
            x,
            position,
            self.weights[name + "input_layernorm.weight"],
            *self.named(
                own, ("q_proj.weight", "k_proj.weight", "v_proj.weight", "q_norm.weight", "k_norm.weight")
            )
        )
        q, k, v = (t.view(rows, -1, *t.shape[1:]).transpose(1, 2) for t in (q, k, v))
        k, v = (t.repeat_interleave(a.query_heads // a.kv_heads, 1) for t in (k, v))
        output = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=a.head_size**-0.5)
        output = output.transpose(1, 2).reshape(len(x), -1)
        return self.attention_after(
            x, output, gate, self.weights[own + "o_proj.weight"], *self.expert_weights(layer)
        )

    def delta(self, layer, x, position, rows):
        a, name = self.architecture, layer_name(layer)
        own = name + "linear_attn."
        q, k, v, log_decay, beta, gate = self.delta_before(
            x,
            position,
            self.weights[name + "input_layernorm.weight"],
            *self.named(
                own,
                (
                    "in_proj_qkv.weight",
                    "in_proj_z.weight",
                    "in_proj_b.weight",
                    "in_proj_a.weight",
                    "conv1d.weight",
                    "A_log",
                    "dt_bias",
                ),
            )
        )
        q, k, v, log_decay, beta = (t.view(rows, -1, *t.shape[1:]) for t in (q, k, v, log_decay, beta))
        if self.fast is not None:
            output = self.fast.fast_delta_rule(q, k, v, log_decay, beta)
        else:
            repeat = a.delta_value_heads // a.delta_key_heads
            output = delta_rule(
                q.repeat_interleave(repeat, 2), k.repeat_interleave(repeat, 2), v, log_decay, beta
            )
        return self.delta_after(
            x,
            output.reshape(len(x), a.delta_value_heads, -1),
            gate,
            *self.named(own, ("norm.weight", "out_proj.weight")),
            *self.expert_weights(layer)
        )

    def hidden(self, ids):
        """Hidden states [rows * length, hidden] behind the last layer, and the sum of the balance losses."""
        rows, length = ids.shape
        position = torch.arange(length, device=ids.device).repeat(rows)
        x = Embedding.apply(ids.reshape(-1), self.weights[EMBEDDING])
        balance = 0
        for layer in range(self.architecture.layers):
            mixer = self.attention if self.architecture.is_attention(layer) else self.delta
            x, own_balance = mixer(layer, x, position, rows)
            balance = balance + own_balance
        return x, balance

    def check_delta_rule(self):
        """Compares the fused kernels with the plain form at this model's sizes; returns relative errors."""
        a = self.architecture
        repeat = a.delta_value_heads // a.delta_key_heads
        return self.fast.check(a.delta_key_heads, repeat, a.delta_head_size, "cuda")

    def loss(self, ids, token_weights):
        """ids [rows, length + 1], token_weights [rows, length]: weighted loss, balance, loss and correctness
        by token."""
        x, balance = self.hidden(ids[:, :-1])
        target = ids[:, 1:].reshape(-1).contiguous()
        loss, by_token, correct = self.head(
            x, self.weights[FINAL_NORM], self.weights[HEAD], target, token_weights.reshape(-1)
        )
        return loss, balance, by_token.view(token_weights.shape), correct.view(token_weights.shape)

    def logits(self, ids):
        x, _ = self.hidden(ids)
        x = norm(x, self.weights[FINAL_NORM], self.architecture.norm_epsilon)
        return (x @ self.weights[HEAD].t()).view(*ids.shape, -1)
