"""The parts of a layer that are flat over tokens [N, ...]; attention and the delta rule stand between them.

Each builder returns functions of tensors only, so that torch.compile makes one graph of each.
"""

import math

import torch
import torch.nn.functional as F

LOGIT_PENALTY = 1e-5  # on the squared log of the softmax's denominator: keeps logits small


def norm(x, weight, epsilon):
    """Root-mean-square norm with the factor 1 + weight."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon) * (1 + weight.float())).to(
        x.dtype
    )


def unit(x):
    """x over its length, as DeltaNet's queries and keys are normalized."""
    return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6)


def experts_function(a):
    """x + routed experts + shared expert, and the router's balance loss.

    All experts are computed and most weighted by zero: at this size dense products beat gathering.
    """

    def experts(x, norm_weight, router, gate_up, down, shared_gate, shared_up, shared_down, shared_router):
        h = norm(x, norm_weight, a.norm_epsilon)
        probability = torch.softmax((h @ router.t()).float(), -1)
        with torch.no_grad():
            rest = probability
            for _ in range(a.experts_per_token - 1):
                rest = torch.where(rest >= rest.amax(-1, keepdim=True), -1.0, rest)
            chosen = (probability >= rest.amax(-1, keepdim=True)).float()
        weight = probability * chosen
        weight = weight / weight.sum(-1, keepdim=True)
        balance = a.experts * (chosen.mean(0) / a.experts_per_token * probability.mean(0)).sum()

        both = (h @ gate_up.reshape(-1, a.hidden).t()).view(-1, a.experts, 2, a.expert_width)
        active = F.silu(both[:, :, 0].float()) * both[:, :, 1].float() * weight[:, :, None]
        routed = active.to(h.dtype).reshape(len(h), -1) @ down.transpose(1, 2).reshape(-1, a.hidden)
        shared = (F.silu((h @ shared_gate.t()).float()) * (h @ shared_up.t()).float()).to(
            h.dtype
        ) @ shared_down.t()
        return x + routed + torch.sigmoid((h @ shared_router.t()).float()).to(h.dtype) * shared, balance

    return experts


def delta_functions(a):
    """DeltaNet before and after the delta rule."""
    experts = experts_function(a)

    def before(x, position, norm_weight, qkv, gate, to_beta, to_decay, taps, a_log, dt_bias):
        """q, k, v by head, log decay, beta, and the gate of the output."""
        h = norm(x, norm_weight, a.norm_epsilon)
        mixed = h @ qkv.t()
        y = mixed * taps[:, 0, -1]
        for back in range(1, a.convolution_taps):
            earlier = F.pad(mixed, (0, 0, back, 0))[: len(h)]
            y = y + torch.where((position >= back)[:, None], earlier, 0) * taps[:, 0, -1 - back]
        y = F.silu(y.float())
        q, k, v = y.split([a.delta_key_width, a.delta_key_width, a.delta_value_width], -1)
        q = unit(q.reshape(-1, a.delta_key_heads, a.delta_head_size))
        k = unit(k.reshape(-1, a.delta_key_heads, a.delta_head_size))
        v = v.reshape(-1, a.delta_value_heads, a.delta_head_size)
        beta = torch.sigmoid((h @ to_beta.t()).float())
        log_decay = -a_log.float().exp() * F.softplus((h @ to_decay.t()).float() + dt_bias.float())
        return q.to(x.dtype), k.to(x.dtype), v.to(x.dtype), log_decay, beta, h @ gate.t()

    def after(x, output, gate, norm_weight, out, *expert_weights):
        heads = (len(x), a.delta_value_heads, a.delta_head_size)
        o = output.reshape(heads).float()
        o = o * torch.rsqrt(o.pow(2).mean(-1, keepdim=True) + a.norm_epsilon) * norm_weight.float()
        o = o * F.silu(gate.reshape(heads).float())
        return experts(x + o.to(x.dtype).reshape(len(x), -1) @ out.t(), *expert_weights)

    return before, after


def attention_functions(a):
    """Gated attention before and after the softmax."""
    experts = experts_function(a)
    pairs = a.rotated // 2

    def before(x, position, norm_weight, q_weight, k_weight, v_weight, q_norm, k_norm):
        """Rotated q and k, v, and the gate of the output, all by head."""
        h = norm(x, norm_weight, a.norm_epsilon)
        q_and_gate = (h @ q_weight.t()).view(-1, a.query_heads, 2 * a.head_size)
        q, gate = q_and_gate[..., : a.head_size], q_and_gate[..., a.head_size :]
        k = (h @ k_weight.t()).view(-1, a.kv_heads, a.head_size)
        v = (h @ v_weight.t()).view(-1, a.kv_heads, a.head_size)
        q, k = norm(q, q_norm, a.norm_epsilon), norm(k, k_norm, a.norm_epsilon)
        index = torch.arange(pairs, device=x.device, dtype=torch.float32)
        angle = position.float()[:, None] * torch.exp(index * (-math.log(a.rope_base) / pairs))
        cosine, sine = angle.cos()[:, None], angle.sin()[:, None]

        def rotate(t):
            first, second = t[..., :pairs].float(), t[..., pairs : 2 * pairs].float()
            return torch.cat(
                [
                    (first * cosine - second * sine).to(t.dtype),
                    (second * cosine + first * sine).to(t.dtype),
                    t[..., 2 * pairs :],
                ],
                -1,
            )

        return rotate(q), rotate(k), v, gate

    def after(x, output, gate, out, *expert_weights):
        o = output.reshape(-1, a.query_heads, a.head_size) * torch.sigmoid(gate.float()).to(x.dtype)
        return experts(x + o.reshape(len(x), -1) @ out.t(), *expert_weights)

    return before, after


def head_function(a):
    def head(x, norm_weight, weight, target, token_weight):
        """Weighted sum of the loss, and per token the loss and whether the target is the most likely
        token."""
        logits = (norm(x, norm_weight, a.norm_epsilon) @ weight.t()).float()
        total = torch.logsumexp(logits, -1)
        wanted = logits.gather(1, target[:, None])[:, 0]
        loss = ((total - wanted) * token_weight).sum() + LOGIT_PENALTY * (total.pow(2) * token_weight).sum()
        return loss, total - wanted, wanted >= logits.amax(-1)

    return head
