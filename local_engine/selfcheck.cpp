#include "local_engine/selfcheck.hpp"

#include "kernels/backend.hpp"
#include "kernels/sampling/philox.hpp"
#include "schema/clock.hpp"

#include <algorithm>
#include <future>
#include <string_view>
#include <utility>

namespace verbatim::local_engine {
namespace {

constexpr std::size_t kNeighbours = 8;
constexpr std::size_t kChunk = 7;  // divides nothing
constexpr const char* kTellsTokensApart = "tells_tokens_apart";

/// Random numbers from a counter: a round's requests depend on its number alone.
class Dice {
 public:
  explicit Dice(std::uint32_t round) : round_(round) {}
  std::uint32_t below(std::size_t bound) {
    return kernels::philox4x32_10({round_, count_++, 0, 0}, {0x5e1fc4ec, 0})[0] %
           static_cast<std::uint32_t>(bound);
  }

 private:
  std::uint32_t round_, count_ = 0;
};

GenerationRequest random_request(Dice& dice, const Engine& engine, std::size_t prompt_max) {
  GenerationRequest request;
  const std::size_t longest = std::clamp<std::size_t>(engine.context_max() / 2, 1, prompt_max);
  const std::size_t length = 1 + dice.below(longest);
  for (std::size_t i = 0; i < length; ++i)
    request.prompt_ids.push_back(static_cast<TokenId>(dice.below(engine.vocab_size())));
  request.tokens_max = 1 + dice.below(24);
  request.ignore_eos = true;
  request.sampling.seed = dice.below(1u << 31);
  request.sampling.temperature = dice.below(2) == 0 ? 0 : 0.8;
  return request;
}

/// "" when both say the same, bit for bit.
std::string difference(const Result<GenerationResult>& a, const Result<GenerationResult>& b) {
  if (!a || !b) {
    if (a.has_error() && b.has_error() && a.error().code == b.error().code) return "";
    return "one failed: " + (a ? b.error() : a.error()).message();
  }
  const std::size_t count = std::min(a->tokens.size(), b->tokens.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto &x = a->tokens[i], &y = b->tokens[i];
    if (x.row_digest8 != y.row_digest8) return "logits of output token " + std::to_string(i);
    if (x.id != y.id) return "choice of output token " + std::to_string(i);
  }
  if (a->tokens.size() != b->tokens.size()) return "number of output tokens";
  return a->logits_digest == b->logits_digest ? "" : "logits digest";
}

class Selfcheck {
 public:
  explicit Selfcheck(const std::vector<std::string>& backends) {
    report_.backends = backends;
    if (backends.size() > 1) report_.findings.push_back({"backends_agree", true, 0, ""});
    for (const char* check :
         {"batch_invariance", "decode_equals_prefill", "chunking", kTellsTokensApart})
      report_.findings.push_back({check, true, 0, ""});
  }

  Result<void> load(const EngineFactory& make) {
    for (const auto& backend : report_.backends) {
      EngineOptions options;
      options.backend = backend;
      auto engine = make(options);
      if (!engine) return engine.error();
      engines_.push_back(*engine);
    }
    EngineOptions chunked;
    chunked.backend = report_.backends.back();
    chunked.prefill_chunk = kChunk;
    chunked.prefix_cache = false;
    auto engine = make(chunked);
    if (!engine) return engine.error();
    chunked_ = *engine;
    return {};
  }

  void round(std::uint32_t number) {
    Dice dice(number);
    auto request = random_request(dice, *engines_.front(), 400);
    request.top_logprobs = 2;
    const std::string name = "round " + std::to_string(number) + ": ";
    const auto expected = engines_.front()->generate_and_wait(request);
    if (expected) look_at_tokens(*expected);
    for (std::size_t i = 1; i < engines_.size(); ++i)
      record("backends_agree", name + report_.backends[i] + ", ", expected,
             engines_[i]->generate_and_wait(request));
    record("batch_invariance", name, expected, among_neighbours(dice, *engines_.back(), request));
    if (expected) {
      std::vector<TokenId> ids;
      for (const auto& token : expected->tokens) ids.push_back(token.id);
      record("decode_equals_prefill", name, expected, engines_.back()->score(request, ids));
    }
    record("chunking", name, expected, chunked_->generate_and_wait(request));
  }

  SelfcheckReport finish(double seconds) {
    report_.seconds = seconds;
    if (report_.tokens > 0 && !apart_)
      fail(finding(kTellsTokensApart), "every token is as likely as every other: damaged weights");
    for (SelfcheckFinding& each : report_.findings) {
      if (each.cases == 0) {
        fail(each,
             "nothing could be compared" +
                 (refused_.empty() ? std::string() : ", since the engine refused: " + refused_));
      }
    }
    return report_;
  }

 private:
  SelfcheckFinding& finding(std::string_view check) {
    return *std::find_if(report_.findings.begin(), report_.findings.end(),
                         [&](const SelfcheckFinding& each) { return each.check == check; });
  }

  void fail(SelfcheckFinding& entry, const std::string& why) {
    if (entry.passed) entry.first_difference = why;
    entry.passed = report_.passed = false;
  }

  void record(std::string_view check, const std::string& name, const Result<GenerationResult>& a,
              const Result<GenerationResult>& b) {
    const auto found = difference(a, b);
    if (!a && found.empty()) {  // refused by both: nothing was compared
      if (refused_.empty()) refused_ = name + a.error().message();
      return;
    }
    auto& entry = finding(check);
    ++entry.cases;
    if (!found.empty()) fail(entry, name + found);
  }

  void look_at_tokens(const GenerationResult& result) {
    report_.tokens += result.tokens.size();
    finding(kTellsTokensApart).cases += result.tokens.size();
    for (const auto& token : result.tokens)
      apart_ = apart_ || token.top.size() < 2 || token.top[0].second != token.top[1].second;
  }

  /// Half of the neighbours are there before the request, half come after it; one is cancelled.
  static Result<GenerationResult> among_neighbours(Dice& dice, Engine& engine,
                                                   const GenerationRequest& request) {
    std::vector<std::promise<void>> ends(kNeighbours);
    std::vector<std::shared_ptr<Generation>> running;
    const auto join = [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i)
        running.push_back(engine.generate(random_request(dice, engine, 100), nullptr,
                                          [&ends, i](const auto&) { ends[i].set_value(); }));
    };
    join(0, kNeighbours / 2);
    std::promise<Result<GenerationResult>> promise;
    const auto own = engine.generate(request, nullptr, [&](Result<GenerationResult> result) {
      promise.set_value(std::move(result));
    });
    join(kNeighbours / 2, kNeighbours);
    running.front()->cancel();
    for (auto& end : ends) end.get_future().get();
    return promise.get_future().get();
  }

  SelfcheckReport report_;
  bool apart_ = false;   // some token was likelier than another
  std::string refused_;  // the first request that no engine computed, and why
  std::vector<std::shared_ptr<Engine>> engines_;  // one a backend
  std::shared_ptr<Engine> chunked_;
};

}  // namespace

Result<SelfcheckReport> selfcheck(const EngineFactory& make,
                                  const std::vector<std::string>& backends, double seconds) {
  Selfcheck check(backends);
  if (const auto loaded = check.load(make); !loaded) return loaded.error();
  const SystemClock clock;
  constexpr double kSecondsPerUs = 1e-6;
  const std::int64_t start = clock.steady_us();
  double elapsed = 0;
  for (std::uint32_t number = 0; number == 0 || elapsed < seconds; ++number) {
    check.round(number);
    elapsed = static_cast<double>(clock.steady_us() - start) * kSecondsPerUs;
  }
  return check.finish(elapsed);
}

Result<SelfcheckReport> selfcheck(const std::filesystem::path& path, double seconds,
                                  bool with_cuda) {
  std::vector<std::string> backends;
  for (const auto backend : kernels::supported_backends())
    backends.emplace_back(kernels::name(backend));
  if (with_cuda) backends.emplace_back("cuda");
  return selfcheck([&](const EngineOptions& options) { return Engine::load(path, options); },
                   backends, seconds);
}

}  // namespace verbatim::local_engine
