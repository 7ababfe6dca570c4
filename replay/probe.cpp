#include "replay/probe.hpp"

#include "replay/key_search.hpp"
#include "replay/two_sample.hpp"
#include "schema/ordered_json.hpp"

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <utility>

namespace verbatim::replay {

namespace {

using gateway::Api;
using gateway::EndpointAnswer;
using gateway::EndpointQuestion;

constexpr std::size_t kConnectFailuresMax = 5;
constexpr std::size_t kMessageBytesMax = 200;
constexpr std::size_t kDifferentMax = 300, kPermutations = 4999;

Error bad(std::string what, std::string advice) {
  return {Errc::invalid_input, std::move(what), "", std::move(advice)};
}

std::string target_of(Api api) {
  switch (api) {
    case Api::anthropic_messages:
      return "/v1/messages";
    case Api::openai_completions:
      return "/v1/completions";
    default:
      return "/v1/chat/completions";
  }
}

OrderedJson user_message(const std::string& text) {
  return OrderedJson::array({{{"role", "user"}, {"content", text}}});
}

/// The body that is sent every time.
Result<OrderedJson> body_of(const ProbeOptions& options) {
  OrderedJson body = OrderedJson::object();
  if (options.request.empty()) {
    body["model"] = options.model;
    body["messages"] = user_message(options.prompt);
    body["max_tokens"] = options.max_tokens;
  } else {
    auto given = parse_ordered_json(options.request);
    if (!given || !given->is_object()) {
      return bad("the request is not one JSON object",
                 "give the body of a chat or messages request");
    }
    body = std::move(*given);
    if (!options.model.empty()) body["model"] = options.model;
    body.erase("stream");
    body.erase("stream_options");
  }
  if (!body.contains("model") || body["model"] == "") {
    return bad("no model is named", "give --model");
  }
  if (!body.contains("temperature")) body["temperature"] = 0;
  if (options.logprobs > 0 && options.api == Api::openai_chat) {
    body["logprobs"] = true;
    body["top_logprobs"] = options.logprobs;
  } else if (options.logprobs > 0 && options.api == Api::openai_completions) {
    body["logprobs"] = options.logprobs;
  }
  return Result<OrderedJson>(boost::system::in_place_value, std::move(body));
}

Result<gateway::Fields> fields_of(const ProbeOptions& options) {
  gateway::Fields fields;
  fields.add("Content-Type", "application/json");
  fields.add("Accept", "application/json");
  fields.add("User-Agent", std::string("verbatim-probe/") + VERBATIM_VERSION);
  fields.add("Cache-Control", "no-store");  // a cached answer would prove nothing
  const bool anthropic = options.api == Api::anthropic_messages;
  if (anthropic) fields.add("anthropic-version", "2023-06-01");
  if (options.api_key.empty()) return fields;
  const bool printable = std::all_of(options.api_key.begin(), options.api_key.end(),
                                     [](char c) { return c > 0x20 && c < 0x7F; });
  if (!printable) return bad("the API key holds characters that no header may hold", "check it");
  if (anthropic) {
    fields.add("x-api-key", options.api_key);
  } else {
    fields.add("Authorization", "Bearer " + options.api_key);
  }
  return fields;
}

/// Other requests, of other lengths: the same ones for the same seed.
class NeighbourMaker {
 public:
  NeighbourMaker(const ProbeOptions& options, gateway::Fields fields, std::string model)
      : api_(options.api),
        fields_(std::move(fields)),
        model_(std::move(model)),
        random_(options.seed) {}

  EndpointQuestion next() {
    static constexpr std::array kWords = {"river", "copper", "seven",  "under",  "lantern",
                                          "quiet", "of",     "violet", "margin", "paper",
                                          "and",   "storm",  "the",    "clock"};
    std::string prompt = "Continue:";
    for (std::size_t words = 1 + random_() % 96; words > 0; --words) {
      prompt.append(" ").append(kWords[random_() % kWords.size()]);
    }
    OrderedJson body = {{"model", model_}};
    if (api_ == Api::openai_completions) {
      body["prompt"] = prompt;
    } else {
      body["messages"] = user_message(prompt);
    }
    body["max_tokens"] = 4 + random_() % 61;
    body["temperature"] = 1;
    return {target_of(api_), fields_, body.dump()};
  }

 private:
  Api api_;
  gateway::Fields fields_;
  std::string model_;
  std::mt19937_64 random_;
};

std::string bounded(std::string_view text) {
  std::size_t end = std::min(text.size(), kMessageBytesMax);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;  // never inside a character
  }
  std::string line(text.substr(0, end));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return line;
}

/// What the endpoint said was wrong, if it said so in its API's form.
std::string told_error(const std::string& body) {
  const auto json = parse_json(body);
  if (!json || !json->is_object()) return "";
  const Json error = json->value("error", Json());
  if (error.is_string()) return error.get<std::string>();
  if (!error.is_object()) return "";
  const Json message = error.value("message", Json());
  return message.is_string() ? message.get<std::string>() : "";
}

/// One question's end: an answer, or a failure with its kind.
struct Ended {
  std::optional<ProbeAnswer> answer;
  std::string kind, message;
};

class Probing {
 public:
  Probing(const ProbeOptions& options, const Clock& clock,
          const std::function<void(std::size_t, std::size_t)>& on_progress)
      : options_(options), clock_(clock), on_progress_(on_progress), key_(options.api_key) {}

  Result<ProbeResult> run() {
    auto planned = planned_probe(options_);
    if (!planned) return planned.error();
    result_ = std::move(*planned);
    const std::vector<ProbePhase> loads = std::exchange(result_.phases, {});
    const auto fields = fields_of(options_);
    if (!fields) return fields.error();
    total_ = options_.count * loads.size();
    NeighbourMaker maker(options_, *fields, result_.model);
    const std::vector<EndpointQuestion> questions(
        options_.count, {target_of(options_.api), *fields, result_.request});
    for (const ProbePhase& load : loads) {
      if (gave_up_) break;
      gateway::Neighbours neighbours;
      neighbours.count = load.neighbours;
      neighbours.next = [&maker] { return maker.next(); };
      const auto asked = ask_phase(questions, load.concurrency, neighbours);
      if (!asked) return asked.error();
    }
    conclude();
    return std::move(result_);
  }

 private:
  Result<void> ask_phase(const std::vector<EndpointQuestion>& questions, std::size_t concurrency,
                         gateway::Neighbours& neighbours) {
    const std::size_t phase = result_.phases.size();
    std::vector<std::optional<Ended>> ended(questions.size());
    const auto done =
        gateway::ask_endpoint(options_.endpoint, questions, concurrency, neighbours, clock_,
                              [&](std::size_t index, const EndpointAnswer& answer) {
                                ended[index] = read(answer, phase);
                                if (on_progress_) on_progress_(++come_, total_);
                                return !gave_up_;
                              });
    if (!done) return done.error();
    ProbePhase about;
    about.concurrency = concurrency;
    about.neighbours = neighbours.count;
    about.neighbours_answered = neighbours.answered;
    about.neighbours_failed = neighbours.failed;
    for (std::optional<Ended>& each : ended) {
      if (!each) continue;  // not asked
      ++about.asked;
      ++result_.asked;
      if (each->answer) {
        about.answers.push_back(result_.answers.size());
        result_.answers.push_back(std::move(*each->answer));
        continue;
      }
      ProbeFailure& failure = result_.failures[each->kind];
      if (failure.count++ == 0) failure.message = std::move(each->message);
    }
    result_.phases.push_back(std::move(about));
    return {};
  }

  /// All that a result ever holds of an endpoint's words comes by here. One that gives the key back, in whatever form,
  /// must not bring it into anything that is shown or kept: what is searched is what was sent, and what was read from it.
  Ended read(const EndpointAnswer& answer, std::size_t phase) {
    Ended ended = understand(answer, phase);
    const bool whole = answer.error_kind.empty();
    if ((whole && key_.finds(answer.body)) || holds_key(ended)) {
      return {std::nullopt, "key_echoed", "the answer holds the API key, and is not shown"};
    }
    ended.message = bounded(ended.message);
    return ended;
  }

  Ended understand(const EndpointAnswer& answer, std::size_t phase) {
    if (!answer.error_kind.empty()) {
      const std::string& kind = answer.error_kind;
      const bool unreachable =
          kind == "resolve" || kind == "connect" || kind == "tls" || kind == "connect_timeout";
      if (unreachable && ++unreachable_ >= kConnectFailuresMax && !result_.reached) gave_up_ = true;
      return {std::nullopt, kind, answer.error_message};
    }
    result_.reached = true;
    if (answer.status / 100 != 2) {
      return {std::nullopt, "http_" + std::to_string(answer.status), told_error(answer.body)};
    }
    auto text = read_answer_text(options_.api, answer.body);
    if (!text) return {std::nullopt, text.error().what, ""};
    ProbeAnswer read;
    read.text = std::move(*text);
    read.phase = phase;
    read.total_us = answer.total_us;
    read.cache_hit = answer.fields.get("x-verbatim-cache") == "hit";
    return {std::move(read), "", ""};
  }

  [[nodiscard]] bool holds_key(const Ended& ended) const {
    if (!ended.answer) return key_.finds(ended.message);
    const AnswerText& said = ended.answer->text;
    // Tokens are shown side by side, and so are their alternatives.
    std::string tokens, alternatives;
    for (const AnswerToken& token : said.tokens) {
      tokens += token.text;
      for (const auto& [text, logprob] : token.top) alternatives += text;
    }
    const auto finds = [this](const std::string& text) { return key_.finds(text); };
    return finds(said.text) || finds(said.finish) || finds(said.model) ||
           finds(said.system_fingerprint) || finds(tokens) || finds(alternatives);
  }

  void conclude() {
    std::vector<AnswerText> texts;
    const auto count = [](std::map<std::string, std::size_t>& counts, const std::string& told) {
      if (!told.empty()) ++counts[told];
    };
    for (const ProbeAnswer& answer : result_.answers) {
      texts.push_back(answer.text);
      count(result_.fingerprints, answer.text.system_fingerprint);
      count(result_.models, answer.text.model);
      count(result_.finish_reasons, answer.text.finish);
    }
    result_.clustering = cluster_answers(texts);
    // Without an answer there is no cluster, and nothing to compare with it.
    const std::string most =
        result_.clustering.clusters.empty() ? "" : result_.clustering.clusters.front().text;
    std::size_t identical = 0;
    for (ProbePhase& phase : result_.phases) {
      std::set<std::string_view> distinct;
      std::size_t same = 0;
      for (const std::size_t index : phase.answers) {
        distinct.insert(texts[index].text);
        same += texts[index].text == most ? 1 : 0;
      }
      phase.distinct = distinct.size();
      phase.identical = share_of_answer(same, phase.answers.size());
      identical += same;
    }
    result_.identical = share_of_answer(identical, texts.size());
    compare_phases();
  }

  /// Each phase with the first: the test takes time in the square of the number of different answers.
  void compare_phases() {
    if (result_.clustering.clusters.size() > kDifferentMax) return;
    const auto texts_of = [this](const ProbePhase& phase) {
      std::vector<std::string> texts;
      for (const std::size_t index : phase.answers)
        texts.push_back(result_.answers[index].text.text);
      return texts;
    };
    TwoSampleOptions test;
    test.permutations = kPermutations;
    test.seed = options_.seed;
    for (ProbePhase& phase : result_.phases) {
      const ProbePhase& first = result_.phases.front();
      if (&phase == &first || phase.answers.empty() || first.answers.empty()) continue;
      phase.p_value = two_sample_test({{texts_of(first), texts_of(phase)}}, test).p_value;
    }
  }

  const ProbeOptions& options_;
  const Clock& clock_;
  const std::function<void(std::size_t, std::size_t)>& on_progress_;
  const KeySearch key_;
  ProbeResult result_;
  std::size_t come_ = 0, total_ = 0, unreachable_ = 0;
  bool gave_up_ = false;
};

}  // namespace

double smallest_p_value(const std::vector<CountsCompared>& groups, std::size_t permutations) {
  // The chance that a permutation puts the answers as they were, or, where it looks the same, just the other way round.
  double chance = 1;
  for (const CountsCompared& group : groups) {
    for (std::size_t k = 1; k <= group.before; ++k) {
      chance *= static_cast<double>(k) / static_cast<double>(group.now + k);
    }
    if (group.before == group.now) chance *= 2;
  }
  return std::max(chance, 1 / static_cast<double>(1 + permutations));
}

LoadFinding load_finding(const ProbeResult& result) {
  LoadFinding finding;
  for (const ProbePhase& phase : result.phases) finding.compared += phase.p_value ? 1 : 0;
  if (finding.compared == 0) return finding;
  finding.limit = kLoadAlpha / static_cast<double>(finding.compared);
  const std::size_t first = result.phases.front().answers.size();
  bool can_differ = false;
  for (const ProbePhase& phase : result.phases) {
    if (!phase.p_value) continue;
    finding.differs = finding.differs || *phase.p_value <= finding.limit;
    const double smallest = smallest_p_value({{first, phase.answers.size()}}, kPermutations);
    can_differ = can_differ || smallest <= finding.limit;
  }
  finding.undecided = !finding.differs && !can_differ;
  return finding;
}

Result<ProbeResult> planned_probe(const ProbeOptions& options) {
  const auto body = body_of(options);
  if (!body) return body.error();
  if (const auto fields = fields_of(options); !fields) return fields.error();
  ProbeResult result;
  const OrderedJson& named = (*body)["model"];
  result.model = named.is_string() ? named.get<std::string>() : named.dump();
  result.api = gateway::api_name(options.api);
  const gateway::BaseUrl& url = options.endpoint.url;
  result.url = (url.tls ? "https://" : "http://") + url.host_field() + url.prefix;
  result.request = body->dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  result.seed = options.seed;
  std::vector<std::size_t> company = {0};
  if (options.neighbours > 0) company.push_back(options.neighbours);
  for (const std::size_t neighbours : company) {
    for (const std::size_t concurrency : options.concurrency) {
      ProbePhase& load = result.phases.emplace_back();
      load.concurrency = concurrency;
      load.neighbours = neighbours;
      load.asked = options.count;
    }
  }
  return result;
}

Result<ProbeResult> probe(const ProbeOptions& options, const Clock& clock,
                          const std::function<void(std::size_t, std::size_t)>& on_progress) {
  return Probing(options, clock, on_progress).run();
}

}  // namespace verbatim::replay
