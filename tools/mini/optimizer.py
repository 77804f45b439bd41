"""Muon for matrices, Adam for the rest, on flat buffers; one step can be captured in a CUDA graph."""

import torch

from architecture import EMBEDDING, HEAD

MUON_RATE = 0.02
MUON_DECAY = 0.05
ADAM_RATES = {EMBEDDING: 8e-3, HEAD: 4e-3}
ADAM_DECAY_RATE = 8e-3  # A_log and dt_bias
ADAM_OTHER_RATE = 3e-3
BETA_1, BETA_2 = 0.9, 0.98
MAX_GRADIENT_NORM = 1.0
# Steps over which the weights are averaged. The average answers better than the weights of any one step while
# the rate is high, so that a training that is cut off leaves something of use.
AVERAGED_STEPS = 300
# Coefficients of five quintic steps that bring all singular values near 1.
ORTHOGONAL_STEPS = (
    (4.0848, -6.8946, 2.9270),
    (3.9505, -6.3029, 2.6377),
    (3.7418, -5.5913, 2.3037),
    (2.8769, -3.1427, 1.2046),
    (2.8366, -3.0525, 1.2012),
)


def orthogonal(matrices, kind):
    """Matrices with the same singular vectors and singular values near 1."""
    x = matrices.to(kind)
    tall = x.shape[-2] > x.shape[-1]
    x = x.transpose(-1, -2) if tall else x
    x = x / (x.float().pow(2).sum((-1, -2), keepdim=True).sqrt() + 1e-7).to(kind)
    for first, third, fifth in ORTHOGONAL_STEPS:
        square = x @ x.transpose(-1, -2)
        x = first * x + (third * square + fifth * (square @ square)) @ x
    return (x.transpose(-1, -2) if tall else x).float()


def adam_rate(name):
    if name.endswith(("A_log", "dt_bias")):
        return ADAM_DECAY_RATE
    return ADAM_RATES.get(name, ADAM_OTHER_RATE)


def adam_step(master, gradient, momentum, square, rates, rate, correction_1, correction_2, scale):
    g = gradient.float() * scale
    new_momentum = BETA_1 * momentum + (1 - BETA_1) * g
    new_square = BETA_2 * square + (1 - BETA_2) * g * g
    momentum.copy_(new_momentum)
    square.copy_(new_square)
    step = (new_momentum / correction_1) / ((new_square / correction_2).sqrt() + 1e-10)
    master.copy_(master - rates * rate * step)


class Optimizer:
    """Step numbers and rates live in a device tensor, so that a captured step can be replayed with new
    ones."""

    def __init__(self, parameters, compiled):
        self.parameters = parameters
        device = parameters.masters.device
        self.kind = torch.bfloat16 if device.type == "cuda" else torch.float32
        self.momentum = torch.zeros(parameters.size, device=device)
        self.square = torch.zeros(parameters.size - parameters.muon_size, device=device)
        self.rates = torch.zeros(parameters.size, device=device)
        for name in parameters.adam_names:
            parameters.view(self.rates, name).fill_(adam_rate(name))
        self.groups = []  # (shape, offset, size) of neighbouring matrices of equal shape
        for name in parameters.muon_names:
            tensor = parameters.tensors[name]
            if self.groups and self.groups[-1][0] == tensor.shape[-2:]:
                self.groups[-1][2] += tensor.size
            else:
                self.groups.append([tensor.shape[-2:], parameters.offsets[name], tensor.size])
        self.average = parameters.masters.clone()
        self.settings = torch.zeros(6, device=device)
        self.gradient_norm = torch.zeros(1, device=device)
        self.adam = compiled(adam_step)

    def set_step(self, step, rate, gradient_scale):
        """Before each step: its number from 1, the rate relative to the constants above, and the gradients'
        scale."""
        self.settings.copy_(
            torch.tensor(
                [
                    rate,
                    1 - BETA_1**step,
                    1 - BETA_2**step,
                    min(0.95, 0.85 + 0.1 * step / 300),
                    gradient_scale,
                    max(1 / step, 1 / AVERAGED_STEPS),
                ]
            )
        )

    @torch.no_grad()
    def step(self):
        p = self.parameters
        rate, correction_1, correction_2, muon_momentum, gradient_scale, newest = self.settings.unbind()
        norm = p.gradients.float().norm() * gradient_scale
        self.gradient_norm.copy_(norm[None])
        scale = gradient_scale * torch.clamp(MAX_GRADIENT_NORM / (norm + 1e-6), max=1.0)
        start = p.muon_size
        self.adam(
            p.masters[start:],
            p.gradients[start:],
            self.momentum[start:],
            self.square,
            self.rates[start:],
            rate,
            correction_1,
            correction_2,
            scale,
        )
        for (rows, columns), offset, size in self.groups:
            part = slice(offset, offset + size)
            gradient = p.gradients[part].float() * scale
            momentum = self.momentum[part]
            momentum.copy_(momentum * muon_momentum + gradient * (1 - muon_momentum))
            ahead = gradient * (1 - muon_momentum) + momentum * muon_momentum
            update = orthogonal(ahead.view(-1, rows, columns), self.kind).reshape(-1)
            master = p.masters[part]
            stretch = max(1, rows / columns) ** 0.5
            master.copy_(master * (1 - MUON_RATE * MUON_DECAY * rate) - update * (MUON_RATE * stretch * rate))
        self.average.lerp_(p.masters, newest)

    def state(self):
        return {"momentum": self.momentum, "square": self.square, "average": self.average}

    def load(self, state):
        self.momentum.copy_(state["momentum"])
        self.square.copy_(state["square"])
        self.average.copy_(state["average"])
