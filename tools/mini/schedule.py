"""How a training changes with its progress, from 0 to 1."""

import dataclasses

# Whole chunks of the delta rule (64), and divisors of a batch's slots.
LENGTHS = (
    *(128, 192, 256, 320, 384, 512, 640, 768, 960, 1152, 1280, 1536, 1920, 2304),
    *(3072, 3840, 5120, 7680, 11520),
)


@dataclasses.dataclass(frozen=True)
class Schedule:
    peak_rate: float  # relative to the optimizer's constants
    warm_up_steps: int
    flat_until: float  # then the rate falls linearly
    last_rate: float
    quantized_from: float  # from here on the forward pass uses the rounded weights
    two_batches_from: float  # micro-batches a step: small steps while much is learnt, then less noise
    growth: tuple  # (until this progress, longest conversation): copying over short distances is learnt first
    long_shares: tuple  # afterwards: (share of conversations, longest)
    lengths: tuple = LENGTHS  # row lengths of batches

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


# Only texts are longer than 1,800 tokens; 16K positions get a little training, too.
LONG_SHARES = ((0.02, 10500), (0.13, 6800), (0.85, 1800))

TRAINING = Schedule(
    peak_rate=1.0,
    warm_up_steps=200,
    flat_until=0.3,
    last_rate=0.0,
    quantized_from=0.5,
    two_batches_from=0.3,
    growth=((0.04, 500), (0.12, 900), (0.3, 1800)),
    long_shares=LONG_SHARES,
)

# From trained weights: not the whole rate, because what was learnt is to stay, and nothing has to grow.
CONTINUED = Schedule(
    peak_rate=0.7,
    warm_up_steps=100,
    flat_until=0.3,
    last_rate=0.0,
    quantized_from=0.3,
    two_batches_from=0.3,
    growth=(),
    long_shares=LONG_SHARES,
)
