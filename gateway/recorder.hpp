#pragma once
// What the gateway needs of the log. An interface, so that tests can make it slow, full or broken.

#include "audit/log.hpp"
#include "audit/reader.hpp"
#include "gateway/net.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace verbatim::gateway {

/// An answer that the log holds: what a cache hit is served from.
struct StoredAnswer {
  Json request;         ///< the request leaf
  Json response;        ///< the response leaf
  std::string headers;  ///< content `response.headers`
  std::string body;     ///< content `response.body`
};

class Recorder {
 public:
  virtual ~Recorder() = default;
  /// audit::Log::append(): `done` runs once, later, on another thread.
  virtual void append(audit::LeafDraft draft, audit::AppendDone done) = 0;
  [[nodiscard]] virtual bool healthy() const = 0;
  [[nodiscard]] virtual Result<Digest> cache_key(std::string_view tenant, Bytes preimage) = 0;
  [[nodiscard]] virtual std::string subject_handle(std::string_view credential) = 0;
  [[nodiscard]] virtual std::optional<Uuid> canonical_output(const Digest& key) const = 0;
  /// The exchange with this record id. Errors as LogReader's; `not_found` also if it has no
  /// response yet.
  [[nodiscard]] virtual Result<StoredAnswer> answer_of(const Uuid& record) = 0;
  [[nodiscard]] virtual audit::Log::Stats stats() const = 0;
};

/// The log. `log` must outlive it.
class LogRecorder final : public Recorder {
 public:
  explicit LogRecorder(audit::Log& log) : log_(log) {}

  void append(audit::LeafDraft draft, audit::AppendDone done) override;
  [[nodiscard]] bool healthy() const override;
  [[nodiscard]] Result<Digest> cache_key(std::string_view tenant, Bytes preimage) override;
  [[nodiscard]] std::string subject_handle(std::string_view credential) override;
  [[nodiscard]] std::optional<Uuid> canonical_output(const Digest& key) const override;
  [[nodiscard]] Result<StoredAnswer> answer_of(const Uuid& record) override;
  [[nodiscard]] audit::Log::Stats stats() const override;

 private:
  audit::Log& log_;
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
