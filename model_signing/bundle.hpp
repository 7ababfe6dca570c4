#pragma once
// The file that holds a model's signature: a Sigstore bundle v0.3 with a DSSE envelope (audit/dsse.hpp), one signature.

#include "model_signing/ec_key.hpp"
#include "model_signing/problem.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace verbatim::model_signing {

/// A larger file is no bundle. Enough for some 200,000 files or shards.
inline constexpr std::uint64_t kBundleBytesMax = 64 << 20;

struct Bundle {
  enum class Method { key, certificate, sigstore };
  Method method{};
  std::string hint;  ///< of a key; "" in bundles of signers before 1.1
  std::string payload;
  ByteVector signature;
};

/// Signs a statement (the exact bytes) and returns the bundle: canonical JSON, and a newline.
[[nodiscard]] std::string sign_statement(std::string_view statement, const EcPrivateKey& key);

/// Reads a bundle by the schema of Model Signing v1.0, and checks no signature: nothing in it can be relied on. Problems:
/// `bundle`, `envelope`.
[[nodiscard]] Checked<Bundle> read_bundle(std::string_view text);

/// The statement in a bundle, if `key` signed it. Problems: `other_key`, `signature`; `unsupported` for one that was signed
/// by a certificate.
[[nodiscard]] Checked<std::string> open_bundle(const Bundle& bundle, const EcPublicKey& key);

}  // namespace verbatim::model_signing
