#pragma once
// A log in memory that can be slow, held up or broken, and remembers what it was given.

#include "gateway/recorder.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace verbatim::test {

class FakeRecorder final : public gateway::Recorder {
 public:
  FakeRecorder() : writer_([this] { write(); }) {}
  ~FakeRecorder() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    writer_.join();
  }

  // ---- what tests do to it

  /// Leaves of this type stay in the queue until release().
  void hold(const std::string& type) {
    const std::lock_guard lock(mutex_);
    held_ = type;
  }
  void release() {
    {
      const std::lock_guard lock(mutex_);
      held_.clear();
    }
    changed_.notify_all();
  }
  /// From now on leaves of this type ("*": of any) fail; "" heals it.
  void fail(const std::string& type) {
    const std::lock_guard lock(mutex_);
    failing_ = type;
  }

  /// The next call of append() for a leaf of this type, or of the function of this name, throws.
  void throw_in(const std::string& what) {
    const std::lock_guard lock(mutex_);
    throwing_ = what;
  }

  /// The next append() of a leaf of this type keeps its caller for so long.
  void stall(const std::string& type, std::chrono::milliseconds duration) {
    const std::lock_guard lock(mutex_);
    stalling_ = type;
    stall_ = duration;
  }
  /// Waits until that has begun.
  void wait_for_stall() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stalling_.empty(); });
  }

  // ---- what tests see

  [[nodiscard]] std::vector<audit::LeafDraft> leaves(const std::string& type) const {
    const std::lock_guard lock(mutex_);
    std::vector<audit::LeafDraft> out;
    for (const auto& leaf : leaves_) {
      if (leaf.type == type) out.push_back(leaf);
    }
    return out;
  }
  /// Waits until there are so many leaves of a type; fewer when it takes longer than five seconds.
  std::vector<audit::LeafDraft> wait_for(const std::string& type, std::size_t count) const {
    for (int i = 0; i < 1000 && leaves(type).size() < count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return leaves(type);
  }
  [[nodiscard]] bool has_queued(const std::string& type) const {
    const std::lock_guard lock(mutex_);
    for (const auto& waiting : queue_) {
      if (waiting.draft.type == type) return true;
    }
    return false;
  }
  static std::string content(const audit::LeafDraft& leaf, const std::string& field) {
    for (const auto& content : leaf.contents) {
      if (content.field == field) return content.bytes;
    }
    return "(absent)";
  }

  // ---- Recorder

  void append(audit::LeafDraft draft, audit::AppendDone done) override {
    stall_if_told(draft.type);
    {
      const std::lock_guard lock(mutex_);
      throw_if_told(draft.type);
      queue_.push_back({std::move(draft), std::move(done)});
    }
    changed_.notify_all();
  }
  [[nodiscard]] bool healthy() const override {
    const std::lock_guard lock(mutex_);
    return failing_.empty();
  }
  [[nodiscard]] Result<Digest> cache_key(std::string_view tenant, Bytes preimage) override {
    const std::lock_guard lock(mutex_);
    throw_if_told("cache_key");
    return sha256({as_bytes(tenant), preimage});
  }
  [[nodiscard]] std::string subject_handle(std::string_view credential) override {
    return sha256(credential).hex();
  }
  [[nodiscard]] std::shared_ptr<const gateway::CanonicalAnswer> canonical_answer(
      const Digest& key) override {
    const std::lock_guard lock(mutex_);
    const auto found = canonical_.find(key);
    if (found == canonical_.end()) return nullptr;
    gateway::CanonicalAnswer answer{found->second, {}, 0};
    for (const auto& leaf : leaves_) {
      if (leaf.id != found->second) continue;
      if (leaf.type == "request") answer.stored.request = leaf.fields;
      if (leaf.type != "response") continue;
      answer.stored.response = leaf.fields;
      answer.stored.headers = content(leaf, "response.headers");
      answer.stored.body = content(leaf, "response.body");
      return std::make_shared<const gateway::CanonicalAnswer>(std::move(answer));
    }
    return nullptr;
  }
  [[nodiscard]] audit::Log::Stats stats() const override {
    const std::lock_guard lock(mutex_);
    audit::Log::Stats stats;
    stats.leaves = leaves_.size();
    stats.healthy = failing_.empty();
    return stats;
  }

 private:
  struct Waiting {
    audit::LeafDraft draft;
    audit::AppendDone done;
  };

  void stall_if_told(const std::string& type) {
    std::chrono::milliseconds duration;
    {
      const std::lock_guard lock(mutex_);
      if (stalling_ != type) return;
      stalling_.clear();
      duration = stall_;
    }
    changed_.notify_all();
    std::this_thread::sleep_for(duration);
  }

  void throw_if_told(const std::string& what) {
    if (throwing_ != what) return;
    throwing_.clear();
    throw std::runtime_error("told to throw in " + what);
  }

  void write() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] {
        return (!queue_.empty() && (held_.empty() || queue_.front().draft.type != held_)) ||
               (stop_ && (queue_.empty() || !held_.empty()));
      });
      if (queue_.empty() || queue_.front().draft.type == held_) return;
      Waiting next = std::move(queue_.front());
      queue_.pop_front();
      if (failing_ == "*" || failing_ == next.draft.type) {
        lock.unlock();
        next.done(Error{Errc::storage_failed, "the disk is full", "", ""});
        lock.lock();
        continue;
      }
      // As the log would: a leaf that cannot be written canonically is a bug.
      static_cast<void>(canonical(next.draft.fields));
      audit::Appended appended;
      appended.index = leaves_.size();
      if (next.draft.canonical && next.draft.id) {
        canonical_.insert_or_assign(next.draft.canonical->key, *next.draft.id);
      }
      leaves_.push_back(std::move(next.draft));
      lock.unlock();
      next.done(appended);
      lock.lock();
    }
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<Waiting> queue_;
  std::vector<audit::LeafDraft> leaves_;
  std::map<Digest, Uuid> canonical_;
  std::string held_, failing_, throwing_, stalling_;
  std::chrono::milliseconds stall_{0};
  bool stop_ = false;
  std::thread writer_;  // last: it uses all of the above
};

}  // namespace verbatim::test
