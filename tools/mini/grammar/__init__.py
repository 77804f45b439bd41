"""The grammar lily-mini learns from: one module per kind of conversation, and the mixture of all of them."""
