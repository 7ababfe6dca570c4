#pragma once
// Which answers may be served again, under which key, and how concurrent misses become one
// question.

#include "gateway/config.hpp"
#include "gateway/dialect.hpp"
#include "gateway/net.hpp"
#include "gateway/upstream.hpp"
#include "schema/digest.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim::gateway {

/// May the answer to this request be stored and served? Only chat, completions and messages; only
/// what asks for determinism, unless the policy says always; never what is stateful; never what the
/// client's Cache-Control forbids (which has no effect on the log).
[[nodiscard]] bool is_cacheable(const CachePolicy& policy, const RequestHead& head, Api api,
                                const RequestFacts& facts);

/// Who asks, as far as a remote server could tell: the target as sent and every header but those that say nothing of
/// the caller (lengths, encodings, user agent, tracing). Callers that differ in any of it never share an answer, whatever
/// header or parameter their credentials travel in. Secret: goes into the keyed hash and nowhere else.
[[nodiscard]] std::string caller_scope(const RequestHead& head);

/// Keys are made on the gateway's thread: a body of more values is not cached, so that nobody's question makes others wait.
inline constexpr std::size_t kCacheKeyValuesMax = 65'536;

/// Everything that identifies the answer: API, model, path and query, version headers, and the
/// canonical body without the members that do not change what is generated (stream, user, metadata,
/// ...). `scope` keeps apart callers who must not share. Fields are length-prefixed, so that no two
/// questions have one preimage. Absent if the body cannot be canonicalised, or has more than kCacheKeyValuesMax values.
[[nodiscard]] std::optional<std::string> cache_preimage(const RequestHead& head, Api api,
                                                        std::string_view body,
                                                        std::string_view model_identity,
                                                        std::string_view scope);

/// Questions under way, by cache key: the first asker leads, the others wait for him.
class Flights {
 public:
  /// Who leads a flight. When it goes, however it ended, the waiters wake.
  class Leader {
   public:
    Leader(Flights& flights, const Digest& key) : flights_(flights), key_(key) {}
    ~Leader() { flights_.land(key_); }
    Leader(const Leader&) = delete;
    Leader& operator=(const Leader&) = delete;

   private:
    Flights& flights_;
    Digest key_;
  };

  explicit Flights(std::shared_ptr<Mailbox> mailbox) : mailbox_(std::move(mailbox)) {}

  /// Leads, or null if somebody else does: then wait().
  [[nodiscard]] std::unique_ptr<Leader> lead(const Digest& key);
  /// Until the leader has ended, or the client has gone.
  [[nodiscard]] net::awaitable<void> wait(Digest key, Cancellation& cancellation);

 private:
  void land(const Digest& key);

  std::shared_ptr<Mailbox> mailbox_;
  std::map<Digest, std::vector<std::shared_ptr<Signal>>> waiting_;
};

}  // namespace verbatim::gateway
