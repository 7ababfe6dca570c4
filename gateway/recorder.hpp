#pragma once
// What the gateway needs of the log. An interface, so that tests can make it slow, full or broken.

#include "audit/log.hpp"
#include "audit/reader.hpp"
#include "gateway/answer_memory.hpp"
#include "gateway/net.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace verbatim::gateway {

class Recorder {
 public:
  virtual ~Recorder() = default;
  /// audit::Log::append(): `done` runs once, later, on another thread.
  virtual void append(audit::LeafDraft draft, audit::AppendDone done) = 0;
  [[nodiscard]] virtual bool healthy() const = 0;
  [[nodiscard]] virtual Result<Digest> cache_key(std::string_view tenant, Bytes preimage) = 0;
  [[nodiscard]] virtual std::string subject_handle(std::string_view credential) = 0;
  /// What a cache hit is served from. Null if there is none, it has expired or was erased, or it
  /// cannot be read.
  [[nodiscard]] virtual std::shared_ptr<const CanonicalAnswer> canonical_answer(
      const Digest& key) = 0;
  [[nodiscard]] virtual audit::Log::Stats stats() const = 0;
};

/// The log. `log` and `clock` must outlive it. It keeps up to `memory_bytes_max` of canonical answers
/// in memory, and forgets them all when the log erases anything.
class LogRecorder final : public Recorder {
 public:
  LogRecorder(audit::Log& log, const Clock& clock, std::size_t memory_bytes_max)
      : log_(log), clock_(clock), memory_(memory_bytes_max) {}

  void append(audit::LeafDraft draft, audit::AppendDone done) override;
  [[nodiscard]] bool healthy() const override;
  [[nodiscard]] Result<Digest> cache_key(std::string_view tenant, Bytes preimage) override;
  [[nodiscard]] std::string subject_handle(std::string_view credential) override;
  [[nodiscard]] std::shared_ptr<const CanonicalAnswer> canonical_answer(const Digest& key) override;
  [[nodiscard]] audit::Log::Stats stats() const override;

 private:
  [[nodiscard]] Result<CanonicalAnswer> read_answer(const Uuid& record);

  audit::Log& log_;
  const Clock& clock_;
  AnswerMemory memory_;
  std::uint64_t erasures_ = 0;                // of the log, when memory_ was last known to be right
  std::unique_ptr<audit::LogReader> reader_;  // opened when first needed; the gateway's thread only
};

/// Appends, and waits on the gateway's thread until the leaf is durable.
[[nodiscard]] net::awaitable<Result<audit::Appended>> append(Recorder& recorder,
                                                             std::shared_ptr<Mailbox> mailbox,
                                                             audit::LeafDraft draft);

/// An append that is under way while its owner does something else.
class PendingAppend {
 public:
  PendingAppend(Recorder& recorder, std::shared_ptr<Mailbox> mailbox, audit::LeafDraft draft);
  /// Waits until it is done. Call once.
  [[nodiscard]] net::awaitable<Result<audit::Appended>> wait();

 private:
  struct State {
    std::optional<Result<audit::Appended>> result;
    Signal signal;
  };
  std::shared_ptr<State> state_;  // shared with the log's callback
};

}  // namespace verbatim::gateway
