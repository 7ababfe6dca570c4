#include "cli/engine_bench.hpp"

#include "schema/clock.hpp"
#include "schema/ordered_json.hpp"

#include <algorithm>
#include <iostream>
#include <random>
#include <vector>

namespace verbatim::cli {

namespace {

using local_engine::Engine;
using local_engine::GenerationRequest;

struct Round {
  double prefill = 0, decode = 0;  // tokens a second
  double score = 0;                // tokens of the answer a second
  double faster = 0;               // what generating took, of what scoring took
  bool same_digest = false;
};

GenerationRequest random_request(const Engine& engine, std::size_t prompt, std::size_t output,
                                 std::mt19937_64& random) {
  GenerationRequest request;
  for (std::size_t i = 0; i < prompt; ++i)
    request.prompt_ids.push_back(
        static_cast<local_engine::TokenId>(random() % engine.vocab_size()));
  request.tokens_max = static_cast<std::uint32_t>(output);
  request.ignore_eos = true;
  return request;
}

Result<Round> measure(Engine& engine, const GenerationRequest& request) {
  const auto generated = engine.generate_and_wait(request);
  if (!generated) return generated.error();
  std::vector<local_engine::TokenId> output;
  for (const auto& token : generated->tokens) output.push_back(token.id);
  const SystemClock clock;
  const std::int64_t start = clock.steady_us();
  const auto scored = engine.score(request, output);
  if (!scored) return scored.error();
  const double seconds = static_cast<double>(clock.steady_us() - start) / 1e6;

  Round round;
  const auto tokens = static_cast<double>(output.size());
  round.prefill = static_cast<double>(generated->prompt_tokens) / generated->prefill_seconds;
  // The prompt's pass gives the first token: prefill's time holds it.
  round.decode = (tokens - 1) / generated->decode_seconds;
  // Of the answer alone, though its prompt is computed too: what a replay does beside what the answer took.
  round.score = tokens / seconds;
  round.faster = (generated->prefill_seconds + generated->decode_seconds) / seconds;
  round.same_digest = scored->logits_digest == generated->logits_digest;
  return round;
}

double median(std::vector<Round> rounds, double Round::*value) {
  const auto middle = rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2);
  std::nth_element(rounds.begin(), middle, rounds.end(),
                   [value](const Round& a, const Round& b) { return a.*value < b.*value; });
  return *middle.*value;
}

}  // namespace

void BenchFlags::add(CLI::App& command) {
  const auto number = [&](const char* name, std::size_t& value, std::size_t least, std::size_t most,
                          const char* what) {
    command.add_option(name, value, what)->check(whole_number(least, most))->capture_default_str();
  };
  number("--prompt-tokens", prompt_tokens, 1, 1'000'000, "at most half of the context");
  number("--output-tokens", output_tokens, 2, 1'000'000, "at most half of the context");
  number("--rounds", rounds, 1, 1000, "measured, after one that is not");
}

int run_bench(const Context& context, Engine& engine, const BenchFlags& wanted) {
  const std::size_t half = engine.context_max() / 2;
  const std::size_t prompt = std::min(wanted.prompt_tokens, half);
  const std::size_t output = std::min(wanted.output_tokens, half);
  std::mt19937_64 random(1);
  std::vector<Round> rounds;
  for (std::size_t i = 0; i <= wanted.rounds; ++i) {
    const auto round = measure(engine, random_request(engine, prompt, output, random));
    if (!round) return fail(round.error());
    if (i > 0) rounds.push_back(*round);
  }
  const bool same = std::all_of(rounds.begin(), rounds.end(),
                                [](const Round& round) { return round.same_digest; });
  const double prefill = median(rounds, &Round::prefill), decode = median(rounds, &Round::decode);
  const double score = median(rounds, &Round::score), faster = median(rounds, &Round::faster);
  if (context.json) {
    print_json({{"backend", engine.backend()},
                {"prompt_tokens", prompt},
                {"output_tokens", output},
                {"rounds", wanted.rounds},
                {"prefill_tokens_per_s", prefill},
                {"decode_tokens_per_s", decode},
                {"score_tokens_per_s", score},
                {"score_times_faster", faster},
                {"same_digest", same}});
  } else {
    std::cout << engine.backend() << ": prefill " << prefill << ", decode " << decode << ", score "
              << score << " tokens/s of the answer; prompt and answer together took 1/" << faster
              << " of the time of generating\n";
  }
  return same ? kDone : kBadFinding;
}

}  // namespace verbatim::cli
