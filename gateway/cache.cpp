#include "gateway/cache.hpp"

#include "gateway/header_rules.hpp"
#include "gateway/json_scan.hpp"
#include "schema/canonical_json.hpp"

#include <algorithm>
#include <array>

namespace verbatim::gateway {

namespace {

/// Members that say how to send, whom to bill or how to label, not what to generate.
constexpr std::array<std::string_view, 6> kNotIdentity = {
    "stream", "stream_options", "user", "metadata", "safety_identifier", "prompt_cache_key"};
/// Headers that change what is generated.
constexpr std::array<std::string_view, 3> kVersionHeaders = {"anthropic-version", "anthropic-beta",
                                                             "openai-beta"};

void append_part(std::string& out, std::string_view part) {
  out.append(std::to_string(part.size())).append(":").append(part).append(",");
}

}  // namespace

bool is_cacheable(const CachePolicy& policy, const RequestHead& head, Api api,
                  const RequestFacts& facts) {
  if (!generates_text(api) || !facts.is_json || facts.stateful) return false;
  const std::string_view control = head.fields.get("cache-control");
  if (has_word(control, "no-cache") || has_word(control, "no-store")) return false;
  return policy.always || (policy.greedy && facts.greedy) || (policy.seeded && facts.seeded);
}

std::optional<std::string> cache_preimage(const RequestHead& head, Api api, std::string_view body,
                                          std::string_view model_identity, std::string_view scope) {
  std::string kept = "{";
  each_member(body, [&](const JsonMember& member) {
    if (std::find(kNotIdentity.begin(), kNotIdentity.end(), member.key) != kNotIdentity.end()) {
      return;
    }
    if (kept.size() > 1) kept.push_back(',');
    kept.append(member.whole);
  });
  kept.push_back('}');
  const auto canonical_body = canonicalize(kept, Numbers::literal, kCacheKeyValuesMax);
  if (!canonical_body) return std::nullopt;
  std::string out = "verbatim/cache/v1,";
  append_part(out, api_name(api));
  append_part(out, model_identity);
  append_part(out, scope);
  append_part(out, redacted_target(head.target));
  for (const std::string_view name : kVersionHeaders) {
    std::string lines;  // a field may come in several lines
    for (const Field& field : head.fields.all()) {
      if (same_word(field.name, name)) append_part(lines, field.value);
    }
    append_part(out, lines);
  }
  append_part(out, *canonical_body);
  return out;
}

std::string caller_scope(const RequestHead& head) {
  static constexpr std::array<std::string_view, 15> kSayNothing = {
      "host",       "connection",      "content-length",  "content-type",      "content-encoding",
      "accept",     "accept-encoding", "accept-language", "user-agent",        "traceparent",
      "tracestate", "cache-control",   "sec-fetch-mode",  "transfer-encoding", "expect"};
  std::string scope;
  append_part(scope, head.target);
  for (const Field& field : head.fields.all()) {
    const bool says_nothing =
        std::any_of(kSayNothing.begin(), kSayNothing.end(),
                    [&](std::string_view name) { return same_word(field.name, name); }) ||
        same_word(std::string_view(field.name).substr(0, 12), "x-stainless-");
    if (says_nothing) continue;
    append_part(scope, field.name);
    append_part(scope, field.value);
  }
  return scope;
}

std::unique_ptr<Flights::Leader> Flights::lead(const Digest& key) {
  if (!waiting_.try_emplace(key).second) return nullptr;
  return std::make_unique<Leader>(*this, key);
}

net::awaitable<void> Flights::wait(Digest key, Cancellation& cancellation) {
  const auto flight = waiting_.find(key);
  if (flight == waiting_.end()) co_return;
  const auto signal = std::make_shared<Signal>();
  flight->second.push_back(signal);
  cancellation.on_cancel([signal] { signal->wake(); });
  co_await signal->wait();
  cancellation.on_cancel(nullptr);
}

void Flights::land(const Digest& key) {
  const auto flight = waiting_.find(key);
  // By the mailbox: a waiter must not run inside the leader's destruction.
  for (const auto& signal : flight->second) {
    mailbox_->post([signal] { signal->wake(); });
  }
  waiting_.erase(flight);
}

}  // namespace verbatim::gateway
