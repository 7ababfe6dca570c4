// What replays read: recorded tokens, calibrations, layer digests, fingerprints of activations and runs of probes. What is
// read is written as it was, and what is written is read.

#include "local_engine/activation_fingerprint.hpp"
#include "local_engine/layer_digests.hpp"
#include "replay/calibration.hpp"
#include "replay/recorded.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/replay/some_run.hpp"

#include <cmath>

namespace verbatim::fuzz {

namespace {

using namespace local_engine;
using namespace replay;

void check_fingerprint(std::string_view input) {
  const std::size_t hidden = 1 + take_choice(input) % 40;
  const std::size_t tokens = take_choice(input);
  const auto chunks = parse_fingerprint(as_bytes(input), tokens, hidden);
  VERBATIM_CHECK(!chunks || input.size() == fingerprint_bytes(tokens, hidden));
  if (!chunks) return;
  for (const FingerprintChunk& chunk : *chunks) {
    (void)decode_value(chunk, 0);
    (void)decode_value(chunk, UINT32_MAX);
  }
}

void check_layers(const Json& json) {
  const auto digests = LayerDigests::from_json(json);
  if (!digests) return;
  const auto again = LayerDigests::from_json(digests->json());
  VERBATIM_CHECK(again.has_value());
  VERBATIM_CHECK(again->json() == digests->json());
  const auto same = compare_layers(*digests, *again);
  if (same) VERBATIM_CHECK(!same->first && same->causes.empty());
  if (digests->block() == 1) (void)digests->within(64);
}

void check_calibration(std::string_view text) {
  const auto calibration = parse_calibration(text);
  if (!calibration) return;
  VERBATIM_CHECK(std::isfinite(calibration->threshold) && std::isfinite(calibration->share_max));
  const std::string written = calibration_text(*calibration);
  const auto again = parse_calibration(written);
  VERBATIM_CHECK(again.has_value());
  VERBATIM_CHECK(calibration_text(*again) == written);
}

void check_run(std::string_view text) {
  auto run = parse_run(text);
  if (!run) return;
  const std::string written = format_run(*run);
  const auto again = parse_run(written);
  VERBATIM_CHECK(again.has_value());
  VERBATIM_CHECK(format_run(*again) == written);
  (void)series_json(*run);
  (void)series_sentence(*run);
  (void)series_metrics({*run}, "name");
  (void)can_be_baseline(*run);
}

void check_tokens(std::string_view text) {
  const auto tokens = parse_tokens(text);
  if (!tokens) return;
  VERBATIM_CHECK(!tokens->choices.empty());
  for (const RecordedChoice& choice : tokens->choices) {
    const SamplingParams& sampling = choice.request.sampling;
    for (const double number : {sampling.temperature, double{sampling.top_p}}) {
      VERBATIM_CHECK(std::isfinite(number));
    }
  }
}

void run(std::string_view input) {
  check_fingerprint(input);
  check_calibration(input);
  check_run(input);
  check_tokens(input);
  if (const auto json = parse_json(input)) check_layers(*json);
}

std::vector<std::string> seeds() {
  LayerDigests digests(LayerDetail::residual);
  for (std::size_t p = 0; p < 4; ++p) {
    digests.add({0, Operator::embedding}, p, {1});
    for (std::size_t layer = 0; layer < 2; ++layer) {
      digests.add({layer, Operator::attention_residual}, p, {2});
      digests.add({layer, Operator::feed_forward_residual}, p, {3});
    }
    if (p < 2) continue;
    digests.add({LayerStage::kAfterLayers, Operator::final_norm}, p, {4});
    digests.add({LayerStage::kAfterLayers, Operator::logits}, p, {5});
  }
  Calibration calibration{"m", "f32-k256/1", std::string(64, 'a'), 200, 5000, 3, 0.01, 0.25F, 0.5};
  ActivationCollector collector(8);
  const std::vector<float> row = {1, -2, 3, 0.5F, 0, -0.25F, 8, 9};
  for (int i = 0; i < 40; ++i) collector.add(row);
  const std::string fingerprint = encode_fingerprint(collector.finish());
  return {
      digests.json().dump(),
      digests.in_blocks(2).json().dump(),
      calibration_text(calibration),
      format_run(replay::test::some_run()),
      fingerprint + std::string("\x28\x07", 2),
      R"({"choices":[{"finish":"stop","ignore_eos":false,"output_ids":[5,2],"prompt_ids":[1,7],"row_digest8":["0011223344556677","8899aabbccddeeff"],"sampling":{"temperature":"0.7","top_p":"0.9","top_k":"40","seed":"7","logit_bias":{"5":"-1.5"}}}],"now":"2026-11-30T00:00:00.000000Z"})"};
}

const Registration kReplayFile({"replay_file",
                                run,
                                seeds,
                                {"\"nan\"", "\"inf\"", "\"-inf\"", "\"1e-400\"", "9007199254740993",
                                 "18446744073709551615", "-1", "\"layer\":", "\"operator\":\"",
                                 "\"first\":", "\"digests\":\"",
                                 "\"block\":", "\"positions\":", "\"answers\":[", "null",
                                 "\"sampling\":{", "\"logit_bias\":{", "\"0x1p3\""}});

}  // namespace

}  // namespace verbatim::fuzz
