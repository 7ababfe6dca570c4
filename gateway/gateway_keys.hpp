#pragma once
// Keys of the gateway's own: who may use it, for which models, and how much. A key is 160 random bits; what is stored is
// its salted hash, from which it cannot be had back.

#include "schema/clock.hpp"
#include "schema/digest.hpp"
#include "schema/error.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace verbatim::gateway {

/// `vb1:ID:SALT:HASH`, as the configuration holds it: a public id of 8 hexadecimal digits, which the key names, a salt of
/// 16 bytes, and SHA-256(salt || key).
struct KeyHash {
  std::string id;
  ByteVector salt;
  Digest hash;
  [[nodiscard]] std::string str() const;
};

/// `invalid_input` if the text has another form.
[[nodiscard]] Result<KeyHash> parse_key_hash(std::string_view text);

/// What a key may do.
struct GatewayKey {
  std::string name;  ///< told in records
  KeyHash hash;
  std::string tenant = "default";
  std::vector<std::string> models;        ///< names, or beginnings that end with '*'; none: all
  std::uint32_t requests_per_minute = 0;  ///< 0: no limit
  std::uint32_t concurrent_max = 0;       ///< 0: no limit
  std::int64_t expires_us = 0;            ///< Unix time; 0: never
};

/// A key that was just made: shown once, and kept by nobody but its owner.
struct NewKey {
  std::string key;  ///< vb-ID-SECRET
  KeyHash hash;
};
[[nodiscard]] NewKey make_gateway_key();

/// The keys in force, and what each is using. On the gateway's thread.
class KeyRing {
 public:
  explicit KeyRing(const Clock& clock) : clock_(clock) {}

  /// What a key may do comes into force at once; what it has used stays counted. Ids are unique.
  void replace(const std::vector<GatewayKey>& keys);
  /// Without keys everybody may come in, with a credential of the provider's.
  [[nodiscard]] bool empty() const { return keys_.empty(); }
  /// True for a key that is in force, whatever it may do.
  [[nodiscard]] bool knows(std::string_view credential) const {
    return find(credential) != nullptr;
  }

 private:
  struct State {
    GatewayKey key;
    double tokens = 0;  // requests that may still come, at most requests_per_minute
    std::int64_t refilled_us = 0;
    std::uint32_t running = 0;
  };

 public:
  /// A request that was let in. While it lives it counts as running.
  class Admission {
   public:
    explicit Admission(std::shared_ptr<State> state) : state_(std::move(state)) {
      ++state_->running;
    }
    ~Admission() {
      if (state_) --state_->running;
    }
    Admission(Admission&& other) noexcept = default;
    Admission& operator=(Admission&&) = delete;
    [[nodiscard]] const GatewayKey& key() const { return state_->key; }

   private:
    std::shared_ptr<State> state_;
  };
  struct Refusal {
    int http_status = 401;
    std::string kind;
    std::string message;  ///< never the key
    std::uint32_t retry_after_s = 0;
  };

  /// Lets a request in, or says why not. `needs_model`: the request names a model, or should; a key with a list of models
  /// then needs `model` to be on it.
  [[nodiscard]] std::variant<Admission, Refusal> admit(std::string_view credential,
                                                       bool needs_model, std::string_view model);

 private:
  [[nodiscard]] std::shared_ptr<State> find(std::string_view credential) const;

  const Clock& clock_;
  std::map<std::string, std::shared_ptr<State>, std::less<>> keys_;  // by id
};

}  // namespace verbatim::gateway
