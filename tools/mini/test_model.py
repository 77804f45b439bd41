"""The mathematics against independent figures: golden logits, recurrence, autograd, MLX's own file."""

import dataclasses
import json
import math
import pathlib
import tarfile

import pytest

torch = pytest.importorskip("torch", reason="the tests of training need torch")
safetensors_torch = pytest.importorskip("safetensors.torch", reason="the tests of training need safetensors")

from architecture import Architecture, tensors  # noqa: E402
from delta_rule import chunk_gradients, delta_rule  # noqa: E402
from model import Model, embedding_gradient  # noqa: E402
from optimizer import orthogonal  # noqa: E402
from quantization import fake_quantize  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "golden"
TINY = Architecture(
    vocabulary=512,
    hidden=128,
    layers=4,
    query_heads=16,
    delta_key_heads=4,
    delta_value_heads=8,
    experts=32,
    experts_per_token=8,
)


@pytest.fixture(scope="module")
def tiny_weights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    with tarfile.open(GOLDEN / "tiny-bf16.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    weights = {}
    for file in sorted(folder.rglob("*.safetensors")):
        weights |= safetensors_torch.load_file(file)
    return weights


def test_tensor_names_and_shapes_are_those_of_the_layout(tiny_weights):
    assert {name: tensor.shape for name, tensor in tensors(TINY).items()} == {
        name: tuple(value.shape) for name, value in tiny_weights.items()
    }


@torch.no_grad()
def test_logits_equal_the_golden_ones(tiny_weights):
    golden = safetensors_torch.load_file(GOLDEN / "golden-bf16.safetensors")
    model = Model(TINY, {name: value.float() for name, value in tiny_weights.items()}, fast=False)
    for name in ("short", "mid"):
        logits = model.logits(golden[f"{name}.ids"].long()[None])[0]
        error = (logits - golden[f"{name}.logits"]).abs().max().item()
        assert error < 2e-4 * golden[f"{name}.logits"].std().item() + 1e-4, f"{name}: {error}"


def random_delta(heads, length, size, dtype):
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype)

    q, k = (torch.nn.functional.normalize(draw(2, length, heads, size), dim=-1) for _ in range(2))
    return (
        q,
        k,
        draw(2, length, heads, size),
        -torch.rand(2, length, heads, generator=generator, dtype=dtype) * 0.3,
        torch.rand(2, length, heads, generator=generator, dtype=dtype),
    )


def test_chunks_give_what_the_recurrence_gives():
    q, k, v, log_decay, beta = random_delta(heads=2, length=150, size=16, dtype=torch.float32)
    state = torch.zeros(2, 2, 16, 16)
    expected = []
    for t in range(150):
        state = state * log_decay[:, t, :, None, None].exp()
        error = beta[:, t, :, None] * (v[:, t] - torch.einsum("bhvk,bhk->bhv", state, k[:, t]))
        state = state + torch.einsum("bhv,bhk->bhvk", error, k[:, t])
        expected.append(torch.einsum("bhvk,bhk->bhv", state, q[:, t]) * 16**-0.5)
    torch.testing.assert_close(
        delta_rule(q, k, v, log_decay, beta), torch.stack(expected, 1), rtol=1e-4, atol=1e-5
    )


def test_the_replaced_backward_equals_autograd():
    batch, count, chunk, heads, size = 2, 3, 64, 2, 16
    length, scale = count * chunk, 16**-0.5
    q, k, v, log_decay, _ = random_delta(heads, length, size, torch.float64)
    total = log_decay.view(batch, count, chunk, heads).cumsum(2).reshape(batch, length, heads)
    d_output, d_value = torch.randn_like(v), torch.randn_like(v)
    state, d_state = (torch.randn(batch, count, heads, size, size, dtype=torch.float64) for _ in range(2))
    inputs = [tensor.clone().requires_grad_() for tensor in (q, k, total)]

    def by_chunk(tensor):
        return tensor.reshape(batch, count, chunk, heads, -1).transpose(2, 3)

    wide_q, wide_k, wide_v = by_chunk(inputs[0]), by_chunk(inputs[1]), by_chunk(v)
    decay = inputs[2].reshape(batch, count, chunk, heads).transpose(2, 3)
    past = torch.ones(chunk, chunk, dtype=torch.bool).tril()
    between = torch.where(past, decay[..., :, None] - decay[..., None, :], -math.inf).exp()
    output = (wide_q * decay.exp()[..., None] * scale) @ state
    output = output + ((wide_q @ wide_k.transpose(-1, -2)) * between * scale) @ wide_v
    last = decay[..., -1]
    after = last.exp()[..., None, None] * state
    after = after + (wide_k * (last[..., None] - decay).exp()[..., None]).transpose(-1, -2) @ wide_v
    ((output * by_chunk(d_output)).sum() + (after * d_state).sum()).backward()

    narrow = [tensor.float() for tensor in (q, k, v, d_output, state, d_state, total / math.log(2), d_value)]
    d_q, d_k, _, d_decay = chunk_gradients(*narrow, scale, chunk)
    for got, tensor in zip((d_q, d_k, d_decay), inputs):
        difference = (got.reshape(tensor.shape) - tensor.grad).abs().max() / tensor.grad.abs().max()
        assert difference < 5e-6


def dequantized(file, name, bits):
    codes, scales, biases = (file[f"{name}.{part}"] for part in ("weight", "scales", "biases"))
    shifts = torch.arange(0, 32, bits)
    values = (codes.view(torch.int32).long()[..., None] >> shifts) & ((1 << bits) - 1)
    values = values.reshape(*codes.shape[:-1], -1, 64).float()
    return values * scales.float()[..., None] + biases.float()[..., None]


@pytest.mark.parametrize(
    "own, theirs, bits",
    [
        ("self_attn.q_proj.weight", "self_attn.q_proj", 4),
        ("mlp.gate.weight", "mlp.gate", 8),
        ("mlp.experts.down_proj", "mlp.switch_mlp.down_proj", 4),
    ],
)
def test_training_rounds_as_mlx_does(tiny_weights, own, theirs, bits):
    quantized = {}
    for file in sorted((GOLDEN / "tiny-q4").glob("*.safetensors")):
        quantized |= safetensors_torch.load_file(file)
    rounded = fake_quantize(tiny_weights[f"model.language_model.layers.3.{own}"].reshape(-1, 64), bits)
    expected = dequantized(quantized, f"language_model.model.layers.3.{theirs}", bits).reshape(-1, 64)
    assert torch.equal(rounded, expected)


def test_the_gradient_of_the_table_sums_repeated_tokens():
    gradient = torch.tensor([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])
    assert embedding_gradient(torch.tensor([2, 0, 2]), gradient, 4).tolist() == [
        [10, 20],
        [0, 0],
        [101, 202],
        [0, 0],
    ]


def test_orthogonal_brings_singular_values_near_one():
    torch.manual_seed(1)
    values = torch.linalg.svdvals(orthogonal(torch.randn(3, 64, 16), torch.float32))
    assert values.min() > 0.8 and values.max() < 1.2


def test_rows_do_not_see_each_other():
    torch.manual_seed(2)
    small = dataclasses.replace(TINY, hidden=64, query_heads=2, experts=4, experts_per_token=2)
    from architecture import initial_values

    model = Model(small, initial_values(small, 5), fast=False)
    ids = torch.randint(0, 512, (2, 70))
    with torch.no_grad():
        together, alone = model.logits(ids), model.logits(ids[1:])
    torch.testing.assert_close(together[1:], alone, rtol=1e-4, atol=1e-5)
