"""The gated delta rule in chunks, in plain torch, and a part of its backward for fast_delta_rule.py."""

import torch
import torch.nn.functional as F

try:
    import fla.ops.gated_delta_rule.chunk as fla_chunk
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
except ImportError:  # only training on a GPU needs it
    chunk_gated_delta_rule = None

CHUNK = 64
MASKED = -1e30


def delta_rule(q, k, v, log_decay, beta, chunk=CHUNK):
    """Output [B, T, H, value] in fp32 arithmetic.

    q and k [B, T, H, key] are normalized and have as many heads as v; log_decay and beta are [B, T, H]. The
    WY form: within a chunk all corrections at once by a triangular solve, between chunks a state."""
    kind, length = q.dtype, q.shape[1]
    q, k, v, log_decay, beta = (t.float().transpose(1, 2) for t in (q, k, v, log_decay, beta))
    padding = -length % chunk
    q, k, v = (F.pad(t, (0, 0, 0, padding)) for t in (q, k, v))
    log_decay, beta = (F.pad(t, (0, padding)) for t in (log_decay, beta))
    batch, heads, padded, key_size = q.shape
    q = q * key_size**-0.5
    q, k, v = (t.reshape(batch, heads, padded // chunk, chunk, -1) for t in (q, k, v))
    total, beta = (t.reshape(batch, heads, padded // chunk, chunk) for t in (log_decay, beta))
    total = total.cumsum(-1)

    past = torch.ones(chunk, chunk, dtype=torch.bool, device=q.device).tril()
    decay = (total[..., :, None] - total[..., None, :]).masked_fill(~past, MASKED).exp()
    system = (beta[..., None] * (k @ k.transpose(-1, -2)) * decay).tril(-1) + torch.eye(
        chunk, device=q.device
    )
    right = torch.cat([beta[..., None] * v, (beta * total.exp())[..., None] * k], -1)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    values, keys = solved.split([v.shape[-1], key_size], -1)
    scores = (q @ k.transpose(-1, -2)) * decay
    queries = q * total.exp()[..., None]
    late_keys = k * (total[..., -1:] - total).exp()[..., None]

    state = q.new_zeros(batch, heads, key_size, v.shape[-1])
    outputs = []
    for index in range(padded // chunk):
        corrected = values[:, :, index] - keys[:, :, index] @ state
        outputs.append(queries[:, :, index] @ state + scores[:, :, index] @ corrected)
        state = (
            total[:, :, index, -1, None, None].exp() * state
            + late_keys[:, :, index].transpose(-1, -2) @ corrected
        )
    output = torch.stack(outputs, 2).reshape(batch, heads, padded, -1)
    return output[:, :, :length].transpose(1, 2).to(kind)


def chunk_gradients(q, k, v, d_output, state, d_state, log2_decay, d_value, scale, chunk):
    """Gradients of q, k, w and of the decay inside chunks, as batched matrix products.

    Heads of q and k are already those of v; log2_decay is summed from each chunk's start. `w` are the solved
    keys."""
    batch, length, heads, key_size = k.shape
    count = length // chunk
    q, k, v, d_output, d_value = (
        t.reshape(batch, count, chunk, heads, -1).transpose(2, 3) for t in (q, k, v, d_output, d_value)
    )
    decay = log2_decay.reshape(batch, count, chunk, heads).transpose(2, 3).float()
    state = state.reshape(batch, count, heads, key_size, -1)
    d_state = d_state.reshape(batch, count, heads, key_size, -1)
    state_t, d_state_t = state.to(v.dtype).transpose(-1, -2), d_state.to(v.dtype).transpose(-1, -2)
    last = decay[..., -1:]

    d_w = -(d_value.to(v.dtype) @ state_t)
    d_q = (d_output @ state_t).float() * torch.exp2(decay)[..., None] * scale
    d_k = (v @ d_state_t).float() * torch.exp2(last - decay)[..., None]
    d_last = (state.float() * d_state.float()).sum((-1, -2)) * torch.exp2(last[..., 0]) + (
        d_k * k.float()
    ).sum((-1, -2))
    past = torch.ones(chunk, chunk, dtype=torch.bool, device=q.device).tril()
    between = torch.exp2(torch.where(past, decay[..., :, None] - decay[..., None, :], MASKED))
    d_scores = ((d_output @ v.transpose(-1, -2)).float() * between * scale).to(k.dtype)
    d_q = d_q + (d_scores @ k).float()
    d_k = d_k + (d_scores.transpose(-1, -2) @ q).float()
    d_decay = (d_q * q.float()).sum(-1) - (d_k * k.float()).sum(-1)
    d_decay = torch.cat([d_decay[..., :-1], d_decay[..., -1:] + d_last[..., None]], -1)
    d_q, d_k, d_w = (t.transpose(2, 3).reshape(batch, length, heads, -1) for t in (d_q, d_k, d_w))
    return d_q, d_k, d_w, d_decay.transpose(2, 3).reshape(batch, length, heads)
