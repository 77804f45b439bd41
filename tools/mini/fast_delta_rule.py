"""The gated delta rule on the GPU: fla-core's kernels, with one part of their backward replaced.

fla-core 0.6.0 refuses to run its chunk_bwd_dqkwg for gated rules on Hopper with Triton 3.4 to 3.7.0, which
compile it wrongly. Here batched matrix products do the same.
"""

import fla.ops.common.chunk_delta_h as fla_states
import fla.ops.common.chunk_o as fla_output
import fla.ops.gated_delta_rule.chunk as fla_chunk
import fla.ops.gated_delta_rule.chunk_fwd as fla_forward
import fla.ops.gated_delta_rule.wy_fast as fla_wy
import fla.ops.utils.cumsum as fla_cumsum
import torch
import torch.nn.functional as F
from triton import Config

from delta_rule import CHUNK, chunk_gradients, delta_rule

MAX_ERROR = 0.1  # relative norm; bf16 explains about 0.01

compiled_gradients = torch.compile(chunk_gradients, dynamic=True)

# fla-core tries up to a dozen configurations a kernel, some again for every number of rows, which takes more
# than a minute; these are among them.
CONFIGURATIONS = (
    (fla_cumsum.chunk_local_cumsum_scalar_kernel, Config({}, num_warps=2)),
    (fla_forward.chunk_gated_delta_rule_fwd_kkt_solve_kernel, Config({"BK": 64}, num_warps=2)),
    (fla_wy.recompute_w_u_fwd_kernel, Config({}, num_warps=4, num_stages=2)),
    (fla_wy.prepare_wy_repr_bwd_kernel, Config({}, num_warps=4, num_stages=2)),
    (
        fla_states.chunk_gated_delta_rule_fwd_kernel_h_blockdim64,
        Config({"BV": 32}, num_warps=4, num_stages=3),
    ),
    (
        fla_states.chunk_gated_delta_rule_bwd_kernel_dhu_blockdim64,
        Config({"BV": 32}, num_warps=4, num_stages=2),
    ),
    (fla_output.chunk_fwd_kernel_o, Config({"BK": 64, "BV": 64}, num_warps=4, num_stages=3)),
    (fla_output.chunk_bwd_kernel_dv_local, Config({}, num_warps=4, num_stages=2)),
)
for tuned, configuration in CONFIGURATIONS:
    while not hasattr(tuned, "configs"):  # the tuner lies below the heuristics
        tuned = tuned.fn
    tuned.configs = [configuration]


def chunk_bwd_dqkwg(
    q,
    k,
    v,
    do,
    h,
    dh,
    w=None,
    g=None,
    g_gamma=None,
    dv=None,
    scale=None,
    state_v_first=False,
    cu_seqlens=None,
    chunk_size=CHUNK,
    chunk_indices=None,
):
    """Called by fla-core, hence its names; q and k have fewer heads than v."""
    if cu_seqlens is not None or state_v_first or k.shape[1] % chunk_size:
        raise ValueError(f"only whole chunks of {chunk_size} of equal rows, not {k.shape[1]} tokens")
    repeat = v.shape[2] // k.shape[2]
    wide_q, wide_k = (t.repeat_interleave(repeat, 2) for t in (q, k))
    d_q, d_k, d_w, d_decay = compiled_gradients(wide_q, wide_k, v, do, h, dh, g, dv, scale, chunk_size)
    if repeat > 1:
        d_q, d_k = (t.view(*k.shape[:3], repeat, k.shape[3]).sum(3) for t in (d_q, d_k))
    return d_q.to(q.dtype), d_k.to(k.dtype), d_w.to(k.dtype), d_decay


fla_chunk.chunk_bwd_dqkwg = chunk_bwd_dqkwg


def cumulative_sums(log_decay):
    """The sums within chunks as the forward and the backward pass take them."""
    fla_chunk.chunk_local_cumsum(log_decay, chunk_size=CHUNK, scale=fla_chunk.RCP_LN2)
    fla_chunk.chunk_local_cumsum(log_decay, chunk_size=CHUNK, reverse=True)


def fast_delta_rule(q, k, v, log_decay, beta):
    """What delta_rule gives, for lengths that are whole chunks; q and k may have fewer heads than v."""
    return fla_chunk.chunk_gated_delta_rule(q, k, v, log_decay, beta, scale=k.shape[-1] ** -0.5)[0]


def check(heads, repeat, size, device):
    """Relative errors of the output and of all gradients against delta_rule in fp32; throws where one is too
    large."""
    generator = torch.Generator(device).manual_seed(3)
    shape = (2, 7 * CHUNK, heads)

    def draw(*last, count=heads):
        return torch.randn(*shape[:2], count, *last, device=device, generator=generator)

    wide = heads * repeat
    q, k = (F.normalize(draw(size), dim=-1).bfloat16() for _ in range(2))
    v, direction = draw(size, count=wide).bfloat16(), draw(size, count=wide).bfloat16()
    log_decay, beta = -F.softplus(draw(count=wide)) * 0.3, torch.sigmoid(draw(count=wide))
    inputs = [tensor.requires_grad_() for tensor in (q, k, v, log_decay, beta)]
    plain = [tensor.detach().float().requires_grad_() for tensor in inputs]
    output = fast_delta_rule(*inputs)
    output.backward(direction)
    expected = delta_rule(*(tensor.repeat_interleave(repeat, 2) for tensor in plain[:2]), *plain[2:])
    expected.backward(direction.float())

    pairs = {"output": (output, expected)}
    pairs |= {name: (a.grad, b.grad) for name, a, b in zip(("q", "k", "v", "decay", "beta"), inputs, plain)}
    errors = {name: ((a.float() - b).norm() / b.norm()).item() for name, (a, b) in pairs.items()}
    if not all(error <= MAX_ERROR for error in errors.values()):
        raise RuntimeError(f"fla-core's delta rule is wrong on this machine: {errors}, limit {MAX_ERROR}")
    return errors
