#include "audit/proof.hpp"

#include "audit/merkle.hpp"

#include <algorithm>
#include <charconv>

namespace verbatim::audit {

namespace {

constexpr std::string_view kHeader = "c2sp.org/tlog-proof@v1";
constexpr std::size_t kHashesMax = 63;

Error malformed(const std::string& what) {
  return Error{Errc::invalid_input, "not a tlog-proof: " + what, "", ""};
}

Result<std::uint64_t> parse_index(std::string_view line) {
  if (!line.starts_with("index ")) return malformed("no index");
  line.remove_prefix(6);
  std::uint64_t index = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), index);
  if (error != std::errc() || std::to_string(index) != line) {
    return malformed("the index is not a plain decimal number");
  }
  return index;
}

}  // namespace

std::string format_tlog_proof(const TlogProof& proof) {
  std::string text(kHeader);
  text += "\n";
  if (!proof.extra.empty()) text += "extra " + to_base64(as_bytes(proof.extra)) + "\n";
  text += "index " + std::to_string(proof.index) + "\n";
  for (const Digest& hash : proof.hashes) text += to_base64(hash.view()) + "\n";
  return text + "\n" + proof.checkpoint;
}

Result<TlogProof> parse_tlog_proof(std::string_view text) {
  if (text.size() > kNoteBytesMax) return malformed("larger than 1 MiB");
  TlogProof proof;
  const auto header = take_line(text);
  if (!header || *header != kHeader)
    return malformed("the first line is not " + std::string(kHeader));
  auto line = take_line(text);
  if (line && line->starts_with("extra ")) {
    const auto extra = from_base64(line->substr(6));
    if (!extra || extra->empty()) return malformed("extra data that is no base64");
    proof.extra = as_text(*extra);
    line = take_line(text);
  }
  if (!line) return malformed("cut short");
  const auto index = parse_index(*line);
  if (!index) return index.error();
  proof.index = *index;
  for (line = take_line(text); line && !line->empty(); line = take_line(text)) {
    const auto bytes = from_base64(*line);
    if (!bytes || bytes->size() != 32) return malformed("a hash is not 32 bytes in base64");
    if (proof.hashes.size() == kHashesMax) return malformed("more than 63 hashes");
    std::copy(bytes->begin(), bytes->end(), proof.hashes.emplace_back().bytes.begin());
  }
  if (!line) return malformed("cut short");
  proof.checkpoint = text;
  return proof;
}

Result<Checkpoint> verify_tlog_proof(const TlogProof& proof, Bytes leaf, const KeyChain& keys) {
  auto checkpoint = open_checkpoint(proof.checkpoint, keys);
  if (!checkpoint) return checkpoint.error();
  if (!verify_inclusion(proof.index, checkpoint->size, leaf_hash(leaf), proof.hashes,
                        checkpoint->root)) {
    return Error{Errc::tampered, "the proof does not lead from the leaf to the checkpoint's root",
                 "index " + std::to_string(proof.index), ""};
  }
  return checkpoint;
}

}  // namespace verbatim::audit
