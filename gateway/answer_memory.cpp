#include "gateway/answer_memory.hpp"

#include <utility>

namespace verbatim::gateway {

namespace {

/// About what an answer takes: the leaves are JSON values of some kilobytes.
std::size_t size_of(const CanonicalAnswer& answer) {
  constexpr std::size_t kLeaves = 8192;
  return kLeaves + answer.stored.headers.size() + answer.stored.body.size();
}

}  // namespace

std::shared_ptr<const CanonicalAnswer> AnswerMemory::find(const Digest& key, std::int64_t now_us) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  const auto answer = found->second->answer;
  if (answer->expires_us != 0 && answer->expires_us <= now_us) {
    forget(found->second);
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, found->second);
  return answer;
}

void AnswerMemory::keep(const Digest& key, std::shared_ptr<const CanonicalAnswer> answer) {
  const std::size_t bytes = size_of(*answer);
  if (bytes > bytes_max_ / 8) return;
  if (const auto old = by_key_.find(key); old != by_key_.end()) forget(old->second);
  entries_.push_front({key, std::move(answer), bytes});
  by_key_.emplace(key, entries_.begin());
  bytes_ += bytes;
  while (bytes_ > bytes_max_) forget(std::prev(entries_.end()));
}

void AnswerMemory::forget_all() {
  by_key_.clear();
  entries_.clear();
  bytes_ = 0;
}

void AnswerMemory::forget(Entries::iterator entry) {
  bytes_ -= entry->bytes;
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

}  // namespace verbatim::gateway
