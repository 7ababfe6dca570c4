#pragma once
// Canonical answers kept in memory, so that a hit need not be opened and decrypted each time.

#include "schema/canonical_json.hpp"
#include "schema/digest.hpp"
#include "schema/uuid.hpp"

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>

namespace verbatim::gateway {

/// An answer that the log holds.
struct StoredAnswer {
  Json request;         ///< the request leaf
  Json response;        ///< the response leaf
  std::string headers;  ///< content `response.headers`
  std::string body;     ///< content `response.body`
};

/// The answer to every question with its key.
struct CanonicalAnswer {
  Uuid origin;  ///< the record that holds it
  StoredAnswer stored;
  std::int64_t expires_us = 0;  ///< Unix time; 0: never
};

/// The answers that were asked for last, by cache key, up to a number of bytes. One thread.
class AnswerMemory {
 public:
  explicit AnswerMemory(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// Null if it is not here, or has expired.
  [[nodiscard]] std::shared_ptr<const CanonicalAnswer> find(const Digest& key, std::int64_t now_us);
  /// Keeps it unless it would fill more than an eighth of the memory.
  void keep(const Digest& key, std::shared_ptr<const CanonicalAnswer> answer);
  void forget_all();
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    Digest key;
    std::shared_ptr<const CanonicalAnswer> answer;
    std::size_t bytes;
  };
  using Entries = std::list<Entry>;
  void forget(Entries::iterator entry);

  std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  Entries entries_;  // the one asked for last is in front
  std::map<Digest, Entries::iterator> by_key_;
};

}  // namespace verbatim::gateway
