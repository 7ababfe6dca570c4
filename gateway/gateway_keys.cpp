#include "gateway/gateway_keys.hpp"

#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace verbatim::gateway {

namespace {

constexpr std::string_view kPrefix = "vb-";
constexpr std::size_t kIdDigits = 8;
constexpr std::size_t kSaltBytes = 16;
constexpr std::size_t kSecretBytes = 20;

template <std::size_t N>
ByteVector random_bytes() {
  ByteVector bytes(N);
  fill_random(bytes);
  return bytes;
}

bool is_lower_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool allows(const std::vector<std::string>& models, std::string_view model) {
  return std::any_of(models.begin(), models.end(), [&](std::string_view allowed) {
    if (!allowed.ends_with('*')) return allowed == model;
    allowed.remove_suffix(1);
    return model.starts_with(allowed);
  });
}

}  // namespace

std::string KeyHash::str() const { return "vb1:" + id + ":" + to_hex(salt) + ":" + hash.hex(); }

Result<KeyHash> parse_key_hash(std::string_view text) {
  const Error bad{Errc::invalid_input, "this is no hash of a gateway key", "",
                  "make one with: verbatim gateway --new-key NAME"};
  if (!text.starts_with("vb1:")) return bad;
  text.remove_prefix(4);
  if (text.size() != kIdDigits + 1 + 2 * kSaltBytes + 1 + 64 || text[kIdDigits] != ':' ||
      text[kIdDigits + 1 + 2 * kSaltBytes] != ':') {
    return bad;
  }
  KeyHash out;
  out.id = text.substr(0, kIdDigits);
  const auto salt = from_hex(text.substr(kIdDigits + 1, 2 * kSaltBytes));
  const auto hash = parse_digest(text.substr(kIdDigits + 2 + 2 * kSaltBytes));
  if (!is_lower_hex(out.id) || !salt || !hash) return bad;
  out.salt = *salt;
  out.hash = *hash;
  return out;
}

NewKey make_gateway_key() {
  NewKey made;
  made.hash.id = to_hex(random_bytes<kIdDigits / 2>());
  made.hash.salt = random_bytes<kSaltBytes>();
  made.key = std::string(kPrefix) + made.hash.id + "-" + to_hex(random_bytes<kSecretBytes>());
  made.hash.hash = sha256({made.hash.salt, as_bytes(made.key)});
  return made;
}

void KeyRing::replace(const std::vector<GatewayKey>& keys) {
  std::map<std::string, std::shared_ptr<State>, std::less<>> next;
  for (const GatewayKey& key : keys) {
    const auto known = keys_.find(key.hash.id);
    std::shared_ptr<State> state;
    if (known != keys_.end()) {
      state = known->second;
      state->tokens = std::min(state->tokens, static_cast<double>(key.requests_per_minute));
    } else {
      state = std::make_shared<State>();
      state->tokens = key.requests_per_minute;
      state->refilled_us = clock_.steady_us();
    }
    state->key = key;
    next[key.hash.id] = std::move(state);
  }
  keys_ = std::move(next);
}

std::shared_ptr<KeyRing::State> KeyRing::find(std::string_view credential) const {
  if (!credential.starts_with(kPrefix)) return nullptr;
  const auto found = keys_.find(credential.substr(kPrefix.size(), kIdDigits));
  if (found == keys_.end()) return nullptr;
  const KeyHash& hash = found->second->key.hash;
  const Digest given = sha256({hash.salt, as_bytes(credential)});
  const bool same =
      CRYPTO_memcmp(given.bytes.data(), hash.hash.bytes.data(), given.bytes.size()) == 0;
  return same ? found->second : nullptr;
}

std::variant<KeyRing::Admission, KeyRing::Refusal> KeyRing::admit(std::string_view credential,
                                                                  bool needs_model,
                                                                  std::string_view model) {
  if (credential.empty()) {
    return Refusal{
        401, "missing_key",
        "a key of this gateway is needed, as a bearer token, as x-api-key or as x-goog-api-key"};
  }
  const auto state = find(credential);
  if (state == nullptr) return Refusal{401, "unknown_key", "this is no key of this gateway"};
  const GatewayKey& key = state->key;
  if (key.expires_us != 0 && clock_.now_us() >= key.expires_us) {
    return Refusal{401, "expired_key", "this key expired on " + format_rfc3339(key.expires_us)};
  }
  if (needs_model && !key.models.empty() && !allows(key.models, model)) {
    return Refusal{
        403, "model_not_allowed",
        model.empty()
            ? "this key is for certain models, and the request names none that can be read"
            : "this key may not use that model"};
  }
  if (key.concurrent_max != 0 && state->running >= key.concurrent_max) {
    return Refusal{429, "concurrency_limit", "this key has as many requests under way as it may",
                   1};
  }
  if (key.requests_per_minute != 0) {
    const double rate = key.requests_per_minute / 60.0;
    const std::int64_t now = clock_.steady_us();
    state->tokens =
        std::min(static_cast<double>(key.requests_per_minute),
                 state->tokens + rate * static_cast<double>(now - state->refilled_us) / 1e6);
    state->refilled_us = now;
    if (state->tokens < 1) {
      const double wait_s = std::ceil((1 - state->tokens) / rate);
      return Refusal{429, "rate_limit", "this key has made as many requests as it may",
                     static_cast<std::uint32_t>(std::max(1.0, wait_s))};
    }
    state->tokens -= 1;
  }
  return Admission(state);
}

}  // namespace verbatim::gateway
