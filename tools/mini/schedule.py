"""How training changes with its progress, from 0 to 1."""

WARM_UP_STEPS = 200
FLAT_UNTIL = 0.4  # then the rate falls linearly
LAST_RATE = 0.02
QUANTIZED_FROM = 0.5  # from here on the forward pass uses the rounded weights
TWO_BATCHES_FROM = 0.3  # micro-batches a step: small steps while much is learnt, then less noise

# (until this progress, longest conversation): copying over short distances is learnt first.
GROWTH = ((0.06, 450), (0.14, 900), (0.25, 1800), (0.45, 2700))
# Afterwards: (share of conversations, longest); 16K positions get a little training, too.
LONG_SHARES = ((0.03, 10500), (0.25, 6800), (0.72, 2900))


def rate(progress, step):
    """The learning rate, relative to the optimizer's constants."""
    warm = min(1.0, (step + 1) / WARM_UP_STEPS)
    remaining = min(1.0, max(0.0, (1 - progress) / (1 - FLAT_UNTIL)))
    return warm * (LAST_RATE + (1 - LAST_RATE) * remaining)


def batches(progress):
    return 2 if progress >= TWO_BATCHES_FROM else 1


def longest_conversation(progress, random):
    """Tokens a conversation drawn now may have."""
    for until, length in GROWTH:
        if progress < until:
            return length
    position = random.random()
    for share, length in LONG_SHARES:
        if position < share:
            return length
        position -= share
    return LONG_SHARES[-1][1]
