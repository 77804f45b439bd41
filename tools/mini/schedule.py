"""How a training changes with its progress, from 0 to 1."""

import dataclasses

TRAINING_LENGTHS = (128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288)
# Capturing a graph takes a second or two, which a short training has not; padding costs less.
FINE_TUNING_LENGTHS = (256, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192)


@dataclasses.dataclass(frozen=True)
class Schedule:
    fine_tuning: bool
    lengths: tuple  # row lengths of batches
    peak_rate: float  # relative to the optimizer's constants
    warm_up_steps: int
    flat_until: float  # then the rate falls linearly
    last_rate: float
    quantized_from: float  # from here on the forward pass uses the rounded weights
    two_batches_from: float  # micro-batches a step: small steps while much is learnt, then less noise
    growth: tuple  # (until this progress, longest conversation): copying over short distances is learnt first
    long_shares: tuple  # afterwards: (share of conversations, longest)

    def rate(self, progress, step):
        """The learning rate, relative to the optimizer's constants."""
        warm = min(1.0, (step + 1) / self.warm_up_steps)
        remaining = min(1.0, max(0.0, (1 - progress) / (1 - self.flat_until)))
        return warm * (self.last_rate + (self.peak_rate - self.last_rate) * remaining)

    def batches(self, progress):
        return 2 if progress >= self.two_batches_from else 1

    def longest_conversation(self, progress, random):
        """Tokens a conversation drawn now may have."""
        for until, length in self.growth:
            if progress < until:
                return length
        position = random.random()
        for share, length in self.long_shares:
            if position < share:
                return length
            position -= share
        return self.long_shares[-1][1]


TRAINING = Schedule(
    fine_tuning=False,
    lengths=TRAINING_LENGTHS,
    peak_rate=1.0,
    warm_up_steps=200,
    flat_until=0.4,
    last_rate=0.02,
    quantized_from=0.5,
    two_batches_from=0.3,
    growth=((0.06, 450), (0.14, 900), (0.25, 1800), (0.45, 2700)),
    # 16K positions get a little training, too.
    long_shares=((0.03, 10500), (0.25, 6800), (0.72, 2900)),
)

# From trained weights: less than half of the rate, because what was learnt is to stay, and down to nothing.
FINE_TUNING = Schedule(
    fine_tuning=True,
    lengths=FINE_TUNING_LENGTHS,
    peak_rate=0.4,
    warm_up_steps=60,
    flat_until=0.2,
    last_rate=0.0,
    quantized_from=0.0,
    two_batches_from=0.5,
    growth=(),
    long_shares=((0.1, 6800), (0.9, 2500)),
)
