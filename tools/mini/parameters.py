"""All parameters in three flat buffers: fp32 masters, the working weights of the forward pass, and gradients.

Flat, because quantizing, clipping and the optimizer then are a few large operations. Tensors are ordered by
how they are trained (Muon's first, equal shapes together) and then by how they are quantized.
"""

import torch

from architecture import EMBEDDING, HEAD, initial_values, tensors
from quantization import GROUP, fake_quantize

NOT_FOR_MUON = (EMBEDDING, HEAD)


def is_muon(name, tensor):
    """Muon trains the matrices; tables, the head, and projections to a few numbers go to Adam."""
    return (
        tensor.bits == 4
        and name not in NOT_FOR_MUON
        and not name.endswith(("in_proj_a.weight", "in_proj_b.weight"))
    )


class Parameters:
    def __init__(self, architecture, seed, device, working_type, compiled):
        """`compiled` is torch.compile, or the identity."""
        self.tensors = tensors(architecture)
        muon = [name for name, tensor in self.tensors.items() if is_muon(name, tensor)]
        self.muon_names = sorted(muon, key=lambda name: (self.tensors[name].shape[-2:], name))
        rest = [name for name in self.tensors if name not in set(muon)]
        self.adam_names = sorted(rest, key=lambda name: (4, 8, 16).index(self.tensors[name].bits))
        self.offsets, self.size = {}, 0
        for name in self.muon_names + self.adam_names:
            self.offsets[name] = self.size
            self.size += self.tensors[name].size
        self.muon_size = self.offsets[self.adam_names[0]]
        self.four_bit_size = self.count(4)
        self.eight_bit_end = self.four_bit_size + self.count(8)

        self.masters = torch.empty(self.size, device=device)
        for name, value in initial_values(architecture, seed).items():
            self.view(self.masters, name).copy_(value)
        self.working = torch.empty(self.size, device=device, dtype=working_type)
        self.gradients = torch.zeros(self.size, device=device, dtype=working_type)
        self.weights = {}
        for name in self.offsets:
            weight = self.view(self.working, name).detach().requires_grad_()
            weight.grad = self.view(self.gradients, name)
            self.weights[name] = weight
        self.quantize_four = compiled(lambda x: fake_quantize(x, 4))
        self.quantize_eight = compiled(lambda x: fake_quantize(x, 8))

    def count(self, bits):
        return sum(tensor.size for tensor in self.tensors.values() if tensor.bits == bits)

    def view(self, flat, name):
        offset, tensor = self.offsets[name], self.tensors[name]
        return flat[offset : offset + tensor.size].view(tensor.shape)

    def quantized_megabytes(self):
        """Size of the file after quantization: 4.5 or 8.5 bits a weight with scales, 16 for the rest."""
        eight = self.eight_bit_end - self.four_bit_size
        return (self.four_bit_size * 4.5 + eight * 8.5 + (self.size - self.eight_bit_end) * 16) / 8e6

    @torch.no_grad()
    def refresh(self, quantized, source=None):
        """Working weights from the masters or from `source`: as the bf16 file will hold them, or as the
        quantized one."""
        exported = (self.masters if source is None else source).bfloat16()
        self.working.copy_(exported)
        if quantized:
            four, eight = self.four_bit_size, self.eight_bit_end
            self.working[:four].copy_(self.quantize_four(exported[:four].view(-1, GROUP)).view(-1))
            self.working[four:eight].copy_(self.quantize_eight(exported[four:eight].view(-1, GROUP)).view(-1))
