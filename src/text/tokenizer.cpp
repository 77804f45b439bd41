// The tokenizer: added tokens, NFC, pre-tokenizer and BPE put together.
#include "text/tokenizer.hpp"

#include <fmt/format.h>

#include <array>
#include <mutex>
#include <utility>

#include "base/mapped_file.hpp"
#include "lily/error.hpp"
#include "text/bpe_encode.hpp"
#include "text/bpe_word_cache.hpp"
#include "text/normalizer.hpp"
#include "text/pretokenizer.hpp"
#include "text/tokenizer_file.hpp"
#include "text/utf8.hpp"

namespace lily::text {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;  // places in a text are counted in 32 bits

// Calls on_valid for the longest stretches of valid UTF-8 and on_broken for each byte between them.
template <typename OnValid, typename OnBroken>
void for_each_stretch(std::string_view text, OnValid on_valid, OnBroken on_broken) {
  while (!text.empty()) {
    if (const std::size_t valid = valid_utf8_prefix(text); valid > 0) {
      on_valid(text.substr(0, valid));
      text.remove_prefix(valid);
    } else {
      on_broken(text.front());
      text.remove_prefix(1);
    }
  }
}

// What one call of encode works with; kept for later calls because its memory and its cache are worth
// keeping.
struct Workspace {
  ShortWordCache short_words;
  LongWordCache long_words;
  LongPieceEncoder long_piece;
  std::string normalized;
  std::array<std::size_t, 256> ends{};
};

constexpr std::size_t kKeptWorkspaces = 8;
constexpr std::size_t kKeptTextBytes = std::size_t{1} << 20;

}  // namespace

struct Tokenizer::Impl {
  Impl(TokenizerFile file, std::unique_ptr<Pretokenizer> splitter)
      : vocabulary(std::move(file.vocabulary)),
        merges(file.byte_ids, file.merges, vocabulary.lengths()),
        added(std::move(file.added_tokens)),
        nfc(file.nfc),
        pretokenizer(std::move(splitter)) {
    workspaces.reserve(kKeptWorkspaces);
  }

  std::unique_ptr<Workspace> take_workspace() const {
    const std::lock_guard lock(mutex);
    if (workspaces.empty()) return std::make_unique<Workspace>();
    std::unique_ptr<Workspace> workspace = std::move(workspaces.back());
    workspaces.pop_back();
    return workspace;
  }

  void give_back(std::unique_ptr<Workspace> workspace) const {
    if (workspace->normalized.capacity() > kKeptTextBytes) std::string().swap(workspace->normalized);
    const std::lock_guard lock(mutex);
    if (workspaces.size() < kKeptWorkspaces) workspaces.push_back(std::move(workspace));
  }

  // Text without added tokens.
  void encode_plain(std::string_view text, Workspace& workspace, std::vector<TokenId>& ids,
                    std::size_t most) const {
    for_each_stretch(
        text,
        [&](std::string_view valid) {
          encode_pieces(nfc ? to_nfc(valid, workspace.normalized) : valid, workspace, ids, most);
        },
        [&](char broken) {
          ids.push_back(merges.byte_id(static_cast<unsigned char>(broken)));
          check_number(ids.size(), most);
        });
  }

  static void check_number(std::size_t tokens, std::size_t most) {
    if (tokens > most)
      throw Error(ErrorKind::too_long, fmt::format("the text has more than {} tokens", most));
  }

  void encode_pieces(std::string_view text, Workspace& workspace, std::vector<TokenId>& ids,
                     std::size_t most) const {
    std::size_t begin = 0;
    while (begin < text.size()) {
      check_number(ids.size() + (text.size() - begin) / vocabulary.longest(), most);
      const std::size_t count = pretokenizer->split(text, begin, workspace.ends);
      // A piece has at most one token per byte; a cached word writes all places of its entry.
      const std::size_t old_size = ids.size();
      ids.resize(old_size + (workspace.ends[count - 1] - begin) + ShortWordCache::kMaxTokens);
      TokenId* out = ids.data() + old_size;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t end = workspace.ends[i];
        out += encode_piece(text.substr(begin, end - begin), text.size() - begin, workspace, out);
        begin = end;
      }
      ids.resize(static_cast<std::size_t>(out - ids.data()));
    }
    check_number(ids.size(), most);
  }

  // `available` counts the bytes that may be read from the beginning of the piece on. Returns how many tokens
  // it wrote to `out`.
  std::size_t encode_piece(std::string_view piece, std::size_t available, Workspace& workspace,
                           TokenId* out) const {
    if (piece.size() <= ShortWordCache::kMaxWordBytes) {
      return encode_word(piece, available, workspace.short_words, out);
    }
    if (piece.size() <= LongWordCache::kMaxWordBytes) {
      return encode_word(piece, available, workspace.long_words, out);
    }
    return piece.size() > kShortPiece ? workspace.long_piece.encode(merges, piece, out)
                                      : encode_short_piece(merges, piece, out);
  }

  template <typename Cache>
  std::size_t encode_word(std::string_view word, std::size_t available, Cache& cache, TokenId* out) const {
    static_assert(Cache::kMaxWordBytes <= kShortPiece);
    const auto key = cache.key_of(word.data(), word.size(), available);
    auto& entry = cache.entry(key);
    if (entry.key == key) {
      std::copy(entry.ids.begin(), entry.ids.end(), out);
      return entry.count();
    }
    const std::size_t count = encode_short_piece(merges, word, out);
    if (count <= Cache::kMaxTokens) {
      entry.key = key;
      entry.ids.fill(-1);
      std::copy_n(out, count, entry.ids.begin());
    }
    return count;
  }

  Vocabulary vocabulary;
  BpeMerges merges;
  AddedTokens added;
  bool nfc;
  std::unique_ptr<Pretokenizer> pretokenizer;
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Workspace>> workspaces;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

std::shared_ptr<const Tokenizer> Tokenizer::build(TokenizerFile file, const std::string& name) {
  std::unique_ptr<Pretokenizer> pretokenizer;
  try {
    pretokenizer = make_pretokenizer(file.pattern);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: pre_tokenizer {}", name, error.what()));
  }
  auto impl = std::make_unique<Impl>(std::move(file), std::move(pretokenizer));
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(impl)));
}

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& tokenizer_json) {
  return parse(read_text_file(tokenizer_json, kMaxFileBytes), tokenizer_json.string());
}

std::shared_ptr<const Tokenizer> Tokenizer::load_checkpoint(const std::filesystem::path& checkpoint) {
  const std::filesystem::path tokenizer_path = checkpoint / "tokenizer.json";
  const std::filesystem::path config_path = checkpoint / "tokenizer_config.json";
  const std::string json = read_text_file(tokenizer_path, kMaxFileBytes);
  const NamedText tokenizer{json, tokenizer_path.string()};
  if (!std::filesystem::exists(config_path))
    return build(read_tokenizer_file(tokenizer, nullptr), tokenizer.name);
  const std::string config_json = read_text_file(config_path, kMaxFileBytes);
  const NamedText config{config_json, config_path.string()};
  return build(read_tokenizer_file(tokenizer, &config), tokenizer.name);
}

std::shared_ptr<const Tokenizer> Tokenizer::parse(std::string_view json, const std::string& name) {
  return build(read_tokenizer_file({json, name}, nullptr), name);
}

std::size_t Tokenizer::size() const noexcept { return impl_->vocabulary.size(); }

void Tokenizer::encode(std::string_view text, ControlTokens control, std::vector<TokenId>& ids,
                       std::size_t most) const {
  if (text.size() > kMaxTextBytes) {
    throw Error(ErrorKind::too_long,
                fmt::format("text of {} bytes, at most {} can be encoded", text.size(), kMaxTextBytes));
  }
  // Given back whether the text is too long or not.
  struct Loan {
    const Impl& impl;
    std::unique_ptr<Workspace> workspace = impl.take_workspace();
    ~Loan() { impl.give_back(std::move(workspace)); }
  } loan{*impl_};
  Workspace& workspace = *loan.workspace;
  std::size_t begin = 0;
  while (control == ControlTokens::match) {
    const auto match = impl_->added.find(text, begin);
    if (!match) break;
    impl_->encode_plain(text.substr(begin, match->begin - begin), workspace, ids, most);
    ids.push_back(match->token->id);
    Impl::check_number(ids.size(), most);
    begin = match->begin + match->token->text.size();
  }
  impl_->encode_plain(text.substr(begin), workspace, ids, most);
}

std::string_view Tokenizer::bytes(TokenId id) const noexcept { return impl_->vocabulary.bytes(id); }

std::optional<TokenId> Tokenizer::control_id(std::string_view literal) const noexcept {
  return impl_->added.id_of(literal);
}

bool Tokenizer::is_control(TokenId id) const noexcept { return impl_->added.contains(id); }

std::vector<std::string> Tokenizer::pretokenize(std::string_view text) const {
  std::vector<std::string> pieces;
  std::string normalized;
  for_each_stretch(
      text,
      [&](std::string_view valid) {
        const std::string_view stretch = impl_->nfc ? to_nfc(valid, normalized) : valid;
        for (std::size_t begin = 0; begin < stretch.size();) {
          std::array<std::size_t, 1> end{};
          impl_->pretokenizer->split(stretch, begin, end);
          pieces.emplace_back(stretch.substr(begin, end[0] - begin));
          begin = end[0];
        }
      },
      [&](char broken) { pieces.emplace_back(1, broken); });
  return pieces;
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string raw;
  for (const TokenId id : ids) {
    const std::string_view token = bytes(id);
    if (token.empty()) {
      throw Error(ErrorKind::bad_input,
                  fmt::format("token id {} has no token; ids go from 0 to {}", id, size() - 1));
    }
    raw.append(token);
  }
  Utf8Stream stream;
  std::string text = stream.push(raw);
  return text.append(stream.finish());
}

}  // namespace lily::text
