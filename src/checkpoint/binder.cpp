// The proof of a checkpoint: layout, shapes, types, quantization and norm convention.
#include "checkpoint/binder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "base/bf16.hpp"
#include "checkpoint/norm_convention.hpp"
#include "checkpoint/quantization_config.hpp"
#include "checkpoint/tensor_names.hpp"
#include "lily/error.hpp"

namespace lily::checkpoint {
namespace {

constexpr std::string_view kWeightSuffix = ".weight";

std::string module_path(std::string name) {
  if (name.ends_with(kWeightSuffix)) name.resize(name.size() - kWeightSuffix.size());
  return name;
}

// "a, b, c and 5 more"
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kListed = 5;
  if (names.size() <= kListed) return fmt::format("{}", fmt::join(names, ", "));
  const auto end = names.begin() + kListed;
  return fmt::format("{} and {} more", fmt::join(names.begin(), end, ", "), names.size() - kListed);
}

class Binder {
 public:
  Binder(const ShardSet& shards, const Config& config) : shards_(shards), config_(config) {}

  BoundTensors bind() && {
    bound_.layout = layout();
    const std::vector<model::TensorSpec> expected =
        model::expected_tensors(config_.dimensions, bound_.layout);
    check_names(expected);
    for (const model::TensorSpec& spec : expected) {
      if (spec.kind == model::TensorKind::matrix) {
        bind_matrix(spec);
      } else {
        bind_vector(spec);
      }
    }
    check_norm_convention(norms_, bound_.layout, shards_.files().front().path().parent_path());
    if (bound_.layout == model::Layout::hugging_face) {
      for (auto* const norm : norms_) {
        for (float& value : *norm) value += 1;
      }
    }
    return std::move(bound_);
  }

 private:
  [[noreturn]] void fail(const LocatedTensor& tensor, const std::string& message) const {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: tensor {}: {}", path_of(tensor), tensor.stored.name, message));
  }

  std::string path_of(const LocatedTensor& tensor) const {
    return shards_.files()[static_cast<std::size_t>(tensor.shard)].path().string();
  }

  // Raw exports keep the kernel width last, MLX moves it to the middle. Nothing else tells the layouts apart
  // reliably: extra MTP tensors and name prefixes occur with both.
  model::Layout layout() const {
    const auto& layers = config_.dimensions.layers;
    const auto first = std::find(layers.begin(), layers.end(), model::LayerKind::delta_net) - layers.begin();
    const std::string name = fmt::format("model.layers.{}.linear_attn.conv1d.weight", first);
    const auto found = shards_.tensors().find(name);
    if (found == shards_.tensors().end()) {
      throw Error(ErrorKind::bad_input,
                  fmt::format("{}: tensor {} is missing; incomplete download or another architecture",
                              shards_.files().front().path().parent_path().string(), name));
    }
    const std::vector<std::int64_t>& shape = found->second.stored.shape;
    const std::int64_t channels = config_.dimensions.conv_channels();
    const std::int64_t kernel = config_.dimensions.conv_kernel;
    if (shape == std::vector<std::int64_t>{channels, kernel, 1}) return model::Layout::mlx;
    if (shape == std::vector<std::int64_t>{channels, 1, kernel}) return model::Layout::hugging_face;
    fail(found->second, fmt::format("shape is {}, needed is [{}, {}, 1] (MLX) or [{}, 1, {}] (Hugging Face)",
                                    shape_text(shape), channels, kernel, channels, kernel));
  }

  // Missing and unknown names, each with all that is known, because a user fixes a download by such a list.
  void check_names(const std::vector<model::TensorSpec>& expected) const {
    const auto& found = shards_.tensors();
    std::set<std::string> known;
    std::vector<std::string> missing;
    for (const model::TensorSpec& spec : expected) {
      const std::string name = canonical_name(spec.name);
      known.insert(name);
      if (!found.contains(name)) missing.push_back(spec.name);
      if (spec.kind != model::TensorKind::matrix) continue;
      known.insert(module_path(name) + ".scales");
      known.insert(module_path(name) + ".biases");
    }
    std::vector<std::string> unknown;
    for (const auto& [name, tensor] : found) {
      if (!known.contains(name)) unknown.push_back(tensor.stored.name);
    }
    if (missing.empty() && unknown.empty()) return;
    std::string message;
    if (!missing.empty()) {
      message =
          fmt::format("{} tensors are missing (incomplete download?): {}", missing.size(), listed(missing));
    }
    if (!unknown.empty()) {
      message += fmt::format("{}{} tensors are unknown: {}", message.empty() ? "" : "; ", unknown.size(),
                             listed(unknown));
    }
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: {}", shards_.files().front().path().parent_path().string(), message));
  }

  const LocatedTensor* find(const std::string& name) const {
    const auto found = shards_.tensors().find(name);
    return found == shards_.tensors().end() ? nullptr : &found->second;
  }

  Extent take(const LocatedTensor& tensor, const std::vector<std::int64_t>& shape) {
    if (tensor.stored.shape != shape) {
      fail(tensor,
           fmt::format("shape is {}, needed is {}", shape_text(tensor.stored.shape), shape_text(shape)));
    }
    ++bound_.tensors;
    bound_.bytes += tensor.stored.bytes;
    return {tensor.shard, tensor.stored.offset, tensor.stored.bytes};
  }

  void require_dtype(const LocatedTensor& tensor, std::initializer_list<std::string_view> accepted) const {
    if (std::find(accepted.begin(), accepted.end(), tensor.stored.dtype) != accepted.end()) return;
    fail(tensor,
         fmt::format("dtype is {}, supported here: {}", tensor.stored.dtype, fmt::join(accepted, ", ")));
  }

  void bind_matrix(const model::TensorSpec& spec) {
    const std::string name = canonical_name(spec.name);
    const std::string module = module_path(name);
    const LocatedTensor& weight = *find(name);
    const LocatedTensor* const scales = find(module + ".scales");
    const LocatedTensor* const biases = find(module + ".biases");

    Matrix matrix;
    matrix.name = module_path(weight.stored.name);
    matrix.columns = spec.shape.back();
    matrix.rows = spec.shape[spec.shape.size() - 2];
    matrix.experts = spec.shape.size() == 3 ? static_cast<int>(spec.shape.front()) : 1;
    matrix.expert_stride_rows = matrix.rows;
    if (scales != nullptr) {
      if (biases == nullptr) fail(*scales, "has no biases beside it");
      bind_affine(matrix, spec, {weight, *scales, *biases}, module);
    } else {
      if (biases != nullptr) fail(*biases, "has no scales beside it");
      if (weight.stored.dtype == "U32") fail(weight, "is packed (U32) but has no scales beside it");
      require_dtype(weight, {"BF16", "F32"});
      matrix.format = weight.stored.dtype == "F32" ? MatrixFormat::f32 : MatrixFormat::bf16;
      matrix.weight = take(weight, spec.shape);
    }
    bound_.matrices.emplace(module, std::move(matrix));
  }

  struct AffineParts {
    const LocatedTensor& weight;
    const LocatedTensor& scales;
    const LocatedTensor& biases;
  };

  void bind_affine(Matrix& matrix, const model::TensorSpec& spec, const AffineParts& parts,
                   const std::string& module) {
    if (bound_.layout == model::Layout::hugging_face) {
      fail(parts.scales, "quantized weights are supported in the MLX layout only");
    }
    if (!config_.quantization) {
      fail(parts.scales,
           "the weights are quantized (scales are present), but config.json has no quantization");
    }
    const std::optional<Quantization> pair = quantization_of(*config_.quantization, module);
    if (!pair)
      fail(parts.scales, "config.json's quantization says that this module has none, but scales are present");
    require_dtype(parts.weight, {"U32"});
    require_dtype(parts.scales, {"BF16"});
    require_dtype(parts.biases, {"BF16"});
    check_pair(*pair, spec, parts);

    std::vector<std::int64_t> packed = spec.shape;
    packed.back() = matrix.columns * pair->bits / 32;
    std::vector<std::int64_t> groups = spec.shape;
    groups.back() = matrix.columns / pair->group_size;
    matrix.format = pair->bits == 4 ? MatrixFormat::affine4 : MatrixFormat::affine8;
    matrix.group_size = pair->group_size;
    matrix.weight = take(parts.weight, packed);
    matrix.scales = take(parts.scales, groups);
    matrix.biases = take(parts.biases, groups);
  }

  // The widths of weight and scales give bits and group size on their own; they must be the configured ones,
  // else a router of 8 bits would be read as one of 4.
  void check_pair(const Quantization& pair, const model::TensorSpec& spec, const AffineParts& parts) const {
    const std::int64_t columns = spec.shape.back();
    const auto width = [](const LocatedTensor& tensor) {
      return tensor.stored.shape.empty() ? 0 : tensor.stored.shape.back();
    };
    if (columns % pair.group_size != 0 || width(parts.scales) != columns / pair.group_size) {
      fail(parts.scales,
           fmt::format("last dimension of scales is {}, but {} columns in groups of {} (config.json's "
                       "quantization) need {}",
                       width(parts.scales), columns, pair.group_size,
                       static_cast<double>(columns) / pair.group_size));
    }
    if (width(parts.weight) != columns * pair.bits / 32) {
      fail(parts.weight,
           fmt::format("last dimension is {}, which is {} bits for {} columns, but config.json's "
                       "quantization says {} bits (supported are 4 and 8)",
                       width(parts.weight),
                       static_cast<double>(width(parts.weight)) * 32 / static_cast<double>(columns), columns,
                       pair.bits));
    }
  }

  void bind_vector(const model::TensorSpec& spec) {
    const std::string name = canonical_name(spec.name);
    const LocatedTensor& tensor = *find(name);
    require_dtype(tensor, {"BF16", "F32"});
    const Extent extent = take(tensor, spec.shape);
    std::vector<std::byte> raw(static_cast<std::size_t>(extent.bytes));
    shards_.files()[static_cast<std::size_t>(extent.shard)].read(extent.offset, raw);

    const bool wide = tensor.stored.dtype == "F32";
    std::vector<float> values(raw.size() / (wide ? 4 : 2));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (wide) {
        std::memcpy(&values[i], raw.data() + 4 * i, 4);
      } else {
        std::uint16_t bits = 0;
        std::memcpy(&bits, raw.data() + 2 * i, 2);
        values[i] = bf16_to_float(bits);
      }
      // One NaN here would spread over every token; matrices are too large to look through.
      if (!std::isfinite(values[i]))
        fail(tensor, fmt::format("value {} at index {} is not finite", values[i], i));
    }
    std::vector<float>& stored = bound_.vectors.emplace(name, std::move(values)).first->second;
    if (spec.kind == model::TensorKind::norm) norms_.push_back(&stored);
  }

  const ShardSet& shards_;
  const Config& config_;
  BoundTensors bound_;
  std::vector<std::vector<float>*> norms_;
};

}  // namespace

BoundTensors bind_tensors(const ShardSet& shards, const Config& config) {
  return Binder(shards, config).bind();
}

}  // namespace lily::checkpoint
