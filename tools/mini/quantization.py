"""MLX's affine rounding, for training with the weights that the quantized file will have."""

import torch

GROUP = 64


def fake_quantize(weights, bits):
    """bf16 values [n, 64] rounded as MLX stores them, in fp32: code * scale + bias with scale and bias in
    bf16.

    The end of the group with the larger magnitude gets an exact code, so that zero stays near zero.
    """
    largest_code = (1 << bits) - 1
    x = weights.float()
    high, low = x.amax(-1, keepdim=True), x.amin(-1, keepdim=True)
    low_end = low.abs() > high.abs()
    scale = torch.clamp((high - low) / largest_code, min=1e-7)
    scale = torch.where(low_end, scale, -scale)
    edge = torch.where(low_end, low, high)
    edge_code = torch.round(edge / scale)
    usable = edge_code != 0
    scale = torch.where(usable, edge / torch.where(usable, edge_code, torch.ones_like(edge_code)), scale)
    bias = torch.where(usable, edge, torch.zeros_like(edge))
    code = torch.clamp(torch.round((x - bias) / scale), 0, largest_code)
    return code * scale.bfloat16().float() + bias.bfloat16().float()
