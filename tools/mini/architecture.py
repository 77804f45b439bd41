"""The architecture of lily-mini: sizes, tensors with their shapes, initial values, config.json."""

import dataclasses
import math

import torch

PREFIX = "model.language_model."
EMBEDDING = PREFIX + "embed_tokens.weight"
FINAL_NORM = PREFIX + "norm.weight"
HEAD = "lm_head.weight"


@dataclasses.dataclass(frozen=True)
class Architecture:
    """Two key heads and two KV heads keep faults of the head mapping visible; twelve experts keep 4 bit under
    8 MB."""

    vocabulary: int = 4096
    hidden: int = 256
    layers: int = 8
    query_heads: int = 4
    kv_heads: int = 2
    head_size: int = 256
    rotated: int = 64
    rope_base: float = 1e7
    delta_key_heads: int = 2
    delta_value_heads: int = 4
    delta_head_size: int = 128
    convolution_taps: int = 4
    experts: int = 12
    experts_per_token: int = 4
    expert_width: int = 64
    shared_width: int = 64
    positions: int = 16384
    norm_epsilon: float = 1e-6

    def is_attention(self, layer):
        """Three DeltaNet layers, one of attention."""
        return layer % 4 == 3

    @property
    def delta_key_width(self):
        return self.delta_key_heads * self.delta_head_size

    @property
    def delta_value_width(self):
        return self.delta_value_heads * self.delta_head_size

    @property
    def convolution_channels(self):
        return 2 * self.delta_key_width + self.delta_value_width


def layer_name(layer):
    return f"{PREFIX}layers.{layer}."


@dataclasses.dataclass(frozen=True)
class Tensor:
    """Shape, and the bits it has after quantization; 16 means that it is not quantized."""

    shape: tuple
    bits: int = 4

    @property
    def size(self):
        return math.prod(self.shape)


def attention_tensors(a):
    queries = a.query_heads * a.head_size
    keys = a.kv_heads * a.head_size
    return {
        "q_proj.weight": Tensor((2 * queries, a.hidden)),
        "k_proj.weight": Tensor((keys, a.hidden)),
        "v_proj.weight": Tensor((keys, a.hidden)),
        "o_proj.weight": Tensor((a.hidden, queries)),
        "q_norm.weight": Tensor((a.head_size,), 16),
        "k_norm.weight": Tensor((a.head_size,), 16),
    }


def delta_tensors(a):
    heads = a.delta_value_heads
    return {
        "dt_bias": Tensor((heads,), 16),
        "A_log": Tensor((heads,), 16),
        "conv1d.weight": Tensor((a.convolution_channels, 1, a.convolution_taps), 16),
        "norm.weight": Tensor((a.delta_head_size,), 16),
        "out_proj.weight": Tensor((a.hidden, a.delta_value_width)),
        "in_proj_qkv.weight": Tensor((a.convolution_channels, a.hidden)),
        "in_proj_z.weight": Tensor((a.delta_value_width, a.hidden)),
        "in_proj_b.weight": Tensor((heads, a.hidden)),
        "in_proj_a.weight": Tensor((heads, a.hidden)),
    }


def expert_tensors(a):
    return {
        "gate.weight": Tensor((a.experts, a.hidden), 8),
        "experts.gate_up_proj": Tensor((a.experts, 2 * a.expert_width, a.hidden)),
        "experts.down_proj": Tensor((a.experts, a.hidden, a.expert_width)),
        "shared_expert.gate_proj.weight": Tensor((a.shared_width, a.hidden)),
        "shared_expert.up_proj.weight": Tensor((a.shared_width, a.hidden)),
        "shared_expert.down_proj.weight": Tensor((a.hidden, a.shared_width)),
        "shared_expert_gate.weight": Tensor((1, a.hidden), 8),
    }


def tensors(a):
    """Every tensor by its Hugging Face name, in the order of the file."""
    every = {EMBEDDING: Tensor((a.vocabulary, a.hidden))}
    for layer in range(a.layers):
        name = layer_name(layer)
        mixer = attention_tensors(a) if a.is_attention(layer) else delta_tensors(a)
        mixer_name = "self_attn." if a.is_attention(layer) else "linear_attn."
        every |= {name + mixer_name + key: tensor for key, tensor in mixer.items()}
        every |= {name + "mlp." + key: tensor for key, tensor in expert_tensors(a).items()}
        every[name + "input_layernorm.weight"] = Tensor((a.hidden,), 16)
        every[name + "post_attention_layernorm.weight"] = Tensor((a.hidden,), 16)
    every[FINAL_NORM] = Tensor((a.hidden,), 16)
    every[HEAD] = Tensor((a.vocabulary, a.hidden))
    return every


def decay_bias(shape, generator):
    """dt_bias such that the first decay steps lie between 0.001 and 0.1, evenly on a logarithmic scale."""
    low, high = math.log(0.001), math.log(0.1)
    step = torch.exp(torch.rand(shape, generator=generator) * (high - low) + low)
    return step + torch.log(-torch.expm1(-step))


def initial_value(name, shape, a, generator):
    """The value a tensor starts from. Norms are stored as w with a factor 1 + w, but for DeltaNet's, stored
    plain."""

    def normal(deviation):
        return torch.randn(shape, generator=generator) * deviation

    if name.endswith("linear_attn.norm.weight"):
        return torch.ones(shape)
    if name.endswith("norm.weight"):
        return torch.zeros(shape)
    if name.endswith("A_log"):
        return torch.log(torch.rand(shape, generator=generator) * 15 + 1)
    if name.endswith("dt_bias"):
        return decay_bias(shape, generator)
    if name.endswith("conv1d.weight"):
        value = normal(0.2)
        value[:, :, -1] += 0.7  # mostly the current token
        return value
    if name == EMBEDDING:
        return normal(0.5)
    if name == HEAD or name.endswith(("mlp.gate.weight", "shared_expert_gate.weight")):
        return normal(0.02)
    if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight", "down_proj")):
        return normal(
            1 / math.sqrt(shape[-1] * 2 * a.layers)
        )  # two writers a layer share the residual stream
    return normal(0.7 / math.sqrt(shape[-1]))


def initial_values(a, seed):
    generator = torch.Generator().manual_seed(seed)
    return {name: initial_value(name, tensor.shape, a, generator) for name, tensor in tensors(a).items()}


def hugging_face_config(a, end_of_text):
    """config.json as transformers reads it."""
    text = {
        "model_type": "qwen3_5_moe_text",
        "vocab_size": a.vocabulary,
        "hidden_size": a.hidden,
        "num_hidden_layers": a.layers,
        "num_attention_heads": a.query_heads,
        "num_key_value_heads": a.kv_heads,
        "head_dim": a.head_size,
        "hidden_act": "silu",
        "max_position_embeddings": a.positions,
        "rms_norm_eps": a.norm_epsilon,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_output_gate": True,
        "linear_conv_kernel_dim": a.convolution_taps,
        "linear_key_head_dim": a.delta_head_size,
        "linear_value_head_dim": a.delta_head_size,
        "linear_num_key_heads": a.delta_key_heads,
        "linear_num_value_heads": a.delta_value_heads,
        "mamba_ssm_dtype": "float32",
        "moe_intermediate_size": a.expert_width,
        "shared_expert_intermediate_size": a.shared_width,
        "num_experts": a.experts,
        "num_experts_per_tok": a.experts_per_token,
        "full_attention_interval": 4,
        "layer_types": [
            "full_attention" if a.is_attention(layer) else "linear_attention" for layer in range(a.layers)
        ],
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": a.rope_base,
            "mrope_interleaved": True,
            "partial_rotary_factor": a.rotated / a.head_size,
            "mrope_section": [11, 11, 10],
        },
        "use_cache": True,
        "dtype": "bfloat16",
        "bos_token_id": end_of_text,
        "eos_token_id": end_of_text,
        "pad_token_id": None,
    }
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "model_type": "qwen3_5_moe",
        "tie_word_embeddings": False,
        "text_config": text,
    }
