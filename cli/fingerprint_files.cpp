#include "cli/fingerprint_files.hpp"

#include "cli/command.hpp"

namespace verbatim::cli {

void FingerprintFlags::add(CLI::App& command) {
  command.add_option("--fingerprint", file, "write a fingerprint of the activations");
}

void FingerprintFlags::add_check(CLI::App& command) {
  command.add_option("--check-fingerprint", file_to_check,
                     "compare the activations with those of this fingerprint");
}

Result<void> FingerprintFlags::write(const local_engine::GenerationResult& result) const {
  if (file.empty()) return {};
  return write_output(file, local_engine::encode_fingerprint(result.top_activations));
}

Result<std::optional<local_engine::FingerprintAgreement>> FingerprintFlags::check(
    const local_engine::Engine& engine, const local_engine::GenerationResult& result) const {
  using Found = std::optional<local_engine::FingerprintAgreement>;
  if (file_to_check.empty()) return Found();
  const auto bytes = read_input(file_to_check);
  if (!bytes) return bytes.error();
  const auto recorded =
      local_engine::parse_fingerprint(as_bytes(*bytes), result.tokens.size(), engine.hidden_size());
  if (!recorded)
    return Error{recorded.error().code, recorded.error().what, file_to_check,
                 "it must be of the same answer, by a model of the same width"};
  return Found(local_engine::compare_fingerprint(*recorded, result.top_activations));
}

}  // namespace verbatim::cli
