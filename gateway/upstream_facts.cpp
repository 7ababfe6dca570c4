#include "gateway/upstream_facts.hpp"

#include "gateway/content_coding.hpp"
#include "gateway/header_rules.hpp"
#include "gateway/whole_answer.hpp"
#include "schema/digest.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>

#include <set>
#include <utility>

namespace verbatim::gateway {

namespace {

constexpr std::size_t kAnswerBytesMax = 4u << 20;
constexpr std::size_t kNameBytesMax = 128, kValueBytesMax = 128;
constexpr std::size_t kFactsMax = 150;  // with the two above: what a leaf can hold
constexpr std::size_t kDepthMax = 8;
constexpr std::size_t kNamesSaid = 5;

/// Differ from answer to answer: times, counters, random ids.
bool is_volatile(std::string_view member) {
  static const std::set<std::string_view> kNames = {
      "created",   "permission", "internal_states", "last_gen_throughput", "uptime",
      "timestamp", "expires_at", "slots",           "is_sleeping"};
  return kNames.contains(member);
}

std::string digest_of(std::string_view text) { return "sha256:" + sha256(text).hex(); }

void collect(const Json& value, const std::string& name, std::size_t depth, Facts& facts) {
  if ((value.is_object() || value.is_array()) && !value.empty() && depth < kDepthMax) {
    std::size_t place = 0;
    for (const auto& [key, member] : value.items()) {
      const bool named = value.is_object();
      if (named && is_volatile(key)) continue;
      collect(member, name + "." + (named ? key : std::to_string(place++)), depth + 1, facts);
    }
    return;
  }
  const std::string text = value.is_string()
                               ? value.get<std::string>()
                               : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  facts[leaf_text(name, kNameBytesMax)] =
      text.size() > kValueBytesMax ? digest_of(text) : leaf_text(text, kValueBytesMax);
}

/// A leaf has room for so many; of the rest a digest.
void bound(Facts& facts) {
  if (facts.size() <= kFactsMax) return;
  Json rest = Json::object();
  auto from = std::next(facts.begin(), kFactsMax);
  for (auto each = from; each != facts.end(); ++each) rest[each->first] = each->second;
  facts.erase(from, facts.end());
  facts["(" + std::to_string(rest.size()) + " more)"] = digest_of(canonical(rest));
}

}  // namespace

Facts facts_in(std::string_view path, std::string_view body) {
  Facts facts;
  const auto json = parse_json(body);
  if (json) {
    collect(*json, std::string(path), 0, facts);
  } else {
    facts[leaf_text(path, kNameBytesMax)] = digest_of(body);
  }
  return facts;
}

/// One upstream that is asked, until somebody says stop.
struct UpstreamFacts::Round {
  Round(net::io_context& io, Asked what) : asked(std::move(what)), pause(io) {}
  void stop() {
    stopped = true;
    cancellation.cancel();
    pause.cancel();
  }

  Asked asked;
  Cancellation cancellation;
  net::steady_timer pause;
  bool stopped = false;
};

void UpstreamFacts::replace(std::vector<Asked> asked) {
  stop();
  for (Asked& each : asked) {
    const auto round = std::make_shared<Round>(io_, std::move(each));
    rounds_.push_back(round);
    net::co_spawn(io_, keep_asking(round), net::detached);
  }
}

void UpstreamFacts::stop() {
  for (const auto& round : rounds_) round->stop();
  rounds_.clear();
}

std::optional<std::uint64_t> UpstreamFacts::leaf_of(std::string_view upstream) const {
  const auto known = known_.find(upstream);
  return known == known_.end() ? std::nullopt : known->second.index;
}

std::map<std::string, std::uint64_t> UpstreamFacts::changes() const {
  std::map<std::string, std::uint64_t> changes;
  for (const auto& [name, known] : known_) changes[name] = known.changes;
  return changes;
}

net::awaitable<void> UpstreamFacts::keep_asking(std::shared_ptr<Round> round) {
  const std::string name(round->asked.upstream->name());
  while (!round->stopped) {
    auto facts = co_await ask_all(*round);
    if (round->stopped) co_return;
    // A server that does not answer says nothing: what it said before stands.
    if (facts) co_await note(name, std::move(*facts), round);
    if (round->stopped) co_return;
    round->pause.expires_after(round->asked.every);
    static_cast<void>(co_await round->pause.async_wait(kTuple));
  }
}

net::awaitable<std::optional<Facts>> UpstreamFacts::ask_all(Round& round) {
  Facts facts;
  for (const std::string& path : round.asked.paths) {
    RequestHead head{"GET", path, 11, {}};
    head.fields.add("Accept", "application/json");
    const std::string no_body;
    const RequestFacts nothing_known;
    WholeAnswer answer(kAnswerBytesMax);
    const Ask question{head, no_body, no_body, nothing_known, Api::generic, "", round.cancellation};
    const Outcome outcome = co_await round.asked.upstream->ask(question, answer);
    if (outcome.status != EndStatus::complete) co_return std::nullopt;
    if (answer.head_.status != 200) continue;  // not a path of this server's
    const std::string_view coding = answer.head_.fields.get("content-encoding");
    const auto plain = coding.empty() ? Result<std::string>(std::move(answer.body_))
                                      : decode_content(coding, answer.body_, kAnswerBytesMax);
    if (plain) facts.merge(facts_in(path, *plain));
  }
  bound(facts);
  co_return facts;
}

net::awaitable<void> UpstreamFacts::note(std::string name, Facts facts,
                                         std::shared_ptr<Round> round) {
  Known& known = known_[name];
  if (facts.empty() || (known.index && known.facts == facts)) co_return;
  audit::LeafDraft draft;
  draft.type = "environment";
  draft.fields = {{"upstream", name}, {"facts", facts}};
  const auto appended = co_await append(recorder_, mailbox_, std::move(draft));
  // Not written: it is found again the next time.
  if (!appended || round->stopped) co_return;
  if (known.index) {
    ++known.changes;
    std::string names;
    for (const std::string& each : changed_facts(known.facts, facts, kNamesSaid)) {
      names += (names.empty() ? "" : ", ") + each;
    }
    out_->warn("upstream {} is not what it was: {} (leaf {})", name, names, appended->index);
  }
  known.facts = std::move(facts);
  known.index = appended->index;
}

}  // namespace verbatim::gateway
