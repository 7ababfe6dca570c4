// Fingerprints of activations: what goes in comes out, what an encoder cannot have written is refused, and the measure
// is TOPLOC's.

#include "local_engine/activation_fingerprint.hpp"

#include "kernels/backend.hpp"
#include "tests/local_engine/engine_fixture.hpp"

#include <cmath>
#include <numeric>

namespace verbatim::local_engine {
namespace {

using test::TinyModel;
using test::TinyRandom;

std::vector<TopActivations> collected(const std::vector<float>& values, std::size_t hidden) {
  ActivationCollector collector(hidden);
  for (std::size_t at = 0; at < values.size(); at += hidden)
    collector.add({values.data() + at, hidden});
  return collector.finish();
}

std::vector<float> random_values(TinyRandom& random, std::size_t count) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    const float value = random.symmetric();
    values.push_back(value * value * value * 50);
  }
  return values;
}

std::string with_byte(std::string bytes, std::size_t at, std::uint16_t value) {
  bytes[at] = static_cast<char>(value >> 8);
  bytes[at + 1] = static_cast<char>(value & 0xff);
  return bytes;
}

Result<std::vector<FingerprintChunk>> parsed(const std::string& bytes, std::size_t tokens,
                                             std::size_t hidden) {
  return parse_fingerprint(as_bytes(bytes), tokens, hidden);
}

TEST(ActivationFingerprint, DecodesToWhatWasEncoded) {
  TinyRandom random(1);
  for (const std::size_t hidden : {1u, 3u, 64u, 127u, 128u, 300u, 4096u}) {
    for (const std::size_t tokens : {1u, 31u, 32u, 33u, 70u}) {
      SCOPED_TRACE(std::to_string(tokens) + " tokens of " + std::to_string(hidden));
      const auto top = collected(random_values(random, tokens * hidden), hidden);
      const std::string bytes = encode_fingerprint(top);
      EXPECT_EQ(bytes.size(), fingerprint_bytes(tokens, hidden));
      const auto chunks = parsed(bytes, tokens, hidden).value();
      ASSERT_EQ(chunks.size(), top.size());
      for (std::size_t c = 0; c < top.size(); ++c) {
        ASSERT_NE(chunks[c].modulus, 0);
        for (std::size_t i = 0; i < top[c].indices.size(); ++i)
          ASSERT_EQ(decode_value(chunks[c], top[c].indices[i]), top[c].values[i]);
      }
      const auto agreement = compare_fingerprint(chunks, top);
      EXPECT_EQ(agreement.exact, top.size());
      EXPECT_EQ(agreement.accepted, top.size());
      EXPECT_EQ(agreement.exponent_mismatches, 0u);
      EXPECT_EQ(agreement.mantissa_mean, 0);
    }
  }
}

TEST(ActivationFingerprint, Takes258BytesOf32Tokens) {
  EXPECT_EQ(fingerprint_bytes(32, 128), 258u);
  EXPECT_EQ(fingerprint_bytes(32, 4096), 258u);
  EXPECT_EQ(fingerprint_bytes(33, 4096), 516u);
  EXPECT_EQ(fingerprint_bytes(1, 64), 130u);  // one row of 64 values has no 128
  EXPECT_EQ(fingerprint_bytes(0, 64), 0u);
}

TEST(ActivationFingerprint, KeepsTheLargestAndOfEqualOnesTheFirst) {
  std::vector<float> values(300, 1.0f);
  values[200] = -3;
  values[7] = 2;
  const auto top = collected(values, 300).front();
  ASSERT_EQ(top.indices.size(), 128u);
  EXPECT_EQ(top.indices[0], 200u);
  EXPECT_EQ(top.indices[1], 7u);
  EXPECT_EQ(top.indices[2], 0u);
  EXPECT_EQ(top.indices[127], 126u);
  EXPECT_EQ(top.values[0], 0xc040);  // -3
  EXPECT_EQ(top.values[2], 0x3f80);  // 1
}

TEST(ActivationFingerprint, RoundsToTheNearestBfloat16TiesToEven) {
  const std::vector<float> values{0x1.01p0f, 0x1.03p0f, 0x1.010002p0f, -0x1.03p0f, 0.0f};
  const auto top = collected(values, values.size()).front();
  const std::vector<std::uint32_t> order{1, 3, 2, 0, 4};
  const std::vector<std::uint16_t> bits{0x3f82, 0xbf82, 0x3f81, 0x3f80, 0};
  EXPECT_EQ(top.indices, order);
  EXPECT_EQ(top.values, bits);
}

TEST(ActivationFingerprint, MovesTheModulusUntilNoTwoIndicesMeet) {
  TopActivations top;
  top.indices = {0, kFingerprintPrime, 2 * (kFingerprintPrime - 1)};
  top.values = {0x3f80, 0x4000, 0x4040};
  const auto chunk = encode_chunk(top);
  EXPECT_EQ(chunk.modulus, kFingerprintPrime - 3);  // 0 and 2, 0 and 0, 2 and 2 meet before
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(decode_value(chunk, top.indices[i]), top.values[i]);
  top.indices = {5, 5};
  top.values = {1, 2};
  EXPECT_EQ(encode_chunk(top).modulus, 0);
  EXPECT_EQ(compare_fingerprint(std::vector{encode_chunk(top)}, std::vector{top}).accepted, 0u);
}

TEST(ActivationFingerprint, AThatNobodyWroteIsRefused) {
  TinyRandom random(2);
  const std::size_t tokens = 40, hidden = 64;
  const std::string good =
      encode_fingerprint(collected(random_values(random, tokens * hidden), 64));
  ASSERT_TRUE(parsed(good, tokens, hidden));
  const std::vector<std::pair<std::string, Result<std::vector<FingerprintChunk>>>> bad{
      {"empty", parsed("", tokens, hidden)},
      {"cut", parsed(good.substr(0, good.size() - 1), tokens, hidden)},
      {"long", parsed(good + "x", tokens, hidden)},
      {"fewer tokens", parsed(good, 32, hidden)},
      {"many tokens", parsed(good, SIZE_MAX, hidden)},
      {"no hidden state", parsed(good, tokens, 0)},
      {"modulus above", parsed(with_byte(good, 0, 65498), tokens, hidden)},
      {"modulus below", parsed(with_byte(good, 0, 1 << 15), tokens, hidden)},
      {"modulus of 1", parsed(with_byte(good, 258, 1), tokens, hidden)},
      {"coefficient", parsed(with_byte(good, 2, 65497), tokens, hidden)},
      {"last coefficient", parsed(with_byte(good, good.size() - 2, 65535), tokens, hidden)}};
  for (const auto& [name, result] : bad) {
    ASSERT_FALSE(result) << name;
    EXPECT_EQ(result.error().code, Errc::invalid_input) << name;
  }
  EXPECT_TRUE(parsed(with_byte(good, 2, 65496), tokens, hidden));
  EXPECT_TRUE(parsed("", 0, hidden));
}

TEST(ActivationFingerprint, RandomBytesNeverCrashAndNeverAgree) {
  TinyRandom random(3);
  const auto top = collected(random_values(random, 32 * 64), 64);
  std::size_t read = 0;
  for (int round = 0; round < 500; ++round) {
    std::string bytes;
    for (int i = 0; i < 129; ++i) {
      const auto value = static_cast<std::uint16_t>(
          i == 0 ? 32769 + random.below(32729) : random.below(kFingerprintPrime + (round % 2)));
      bytes += static_cast<char>(value >> 8);
      bytes += static_cast<char>(value & 0xff);
    }
    const auto chunks = parsed(bytes, 32, 64);
    if (!chunks) continue;
    ++read;
    EXPECT_EQ(compare_fingerprint(*chunks, top).accepted, 0u);
  }
  EXPECT_GT(read, 250u);
}

TEST(ActivationFingerprint, MeasuresMeanAndMedianOfTheMantissas) {
  const std::size_t hidden = 128;
  std::vector<float> values, others;
  for (std::size_t i = 0; i < hidden; ++i) {
    values.push_back(1.0f);
    // Mantissas off by 0 to 3; every eighth value has another exponent.
    others.push_back(i % 8 == 7 ? 4.0f : 1.0f + static_cast<float>(i % 4) * 0x1p-7f);
  }
  const auto recorded = parsed(encode_fingerprint(collected(values, hidden)), 1, hidden).value();
  const auto found = compare_fingerprint(recorded, collected(others, hidden));
  EXPECT_EQ(found.values, 128u);
  EXPECT_EQ(found.exponent_mismatches, 16u);
  // 112 values: 32 each of 0, 1, 2, and 16 of 3.
  EXPECT_FLOAT_EQ(found.mantissa_mean, (32.0f * (0 + 1 + 2) + 16 * 3) / 112);
  EXPECT_FLOAT_EQ(found.mantissa_median, 1);
  EXPECT_EQ(found.accepted, 1u);
  EXPECT_EQ(found.exact, 0u);
  for (float& value : others) value *= 2;
  const auto none = compare_fingerprint(recorded, collected(others, hidden));
  EXPECT_EQ(none.exponent_mismatches, 128u);
  EXPECT_TRUE(std::isinf(none.mantissa_mean));
  EXPECT_EQ(none.accepted, 0u);
  for (float& value : others) value = -1;
  EXPECT_EQ(compare_fingerprint(recorded, collected(others, hidden)).accepted, 0u);
}

TEST(ActivationFingerprint, IsTheSameForEveryBackendChunkAndForPrefillAndDecode) {
  const auto folder = test::fresh_dir();
  TinyModel model;
  test::write_tiny_model(folder, model);
  TinyRandom random(4);
  auto request = greedy(random_ids(random, 50, model.vocab), 70);
  const auto plain = load(folder)->generate_and_wait(request).value();
  EXPECT_TRUE(plain.top_activations.empty());
  request.top_activations = true;
  std::vector<std::string> prints;
  for (const auto backend : kernels::supported_backends()) {
    EngineOptions options = with_backend(std::string(kernels::name(backend)));
    options.threads = 1;
    options.prefill_chunk = 7;
    const auto engine = load(folder, options);
    const auto result = engine->generate_and_wait(request).value();
    expect_same(plain, result, "with activations");
    EXPECT_EQ(engine->hidden_size(), model.hidden);
    prints.push_back(encode_fingerprint(result.top_activations));
    prints.push_back(
        encode_fingerprint(engine->score(request, ids_of(plain)).value().top_activations));
  }
  for (const auto& print : prints) {
    EXPECT_EQ(print, prints.front());
    EXPECT_EQ(print.size(), fingerprint_bytes(70, model.hidden));
  }
}

TEST(ActivationFingerprint, TellsOtherWeightsAndOtherPromptsApart) {
  const auto folder = test::fresh_dir();
  TinyModel model, other;
  other.seed = 2;
  for (const auto& each : {model, other}) {
    const auto place = folder / std::to_string(each.seed);
    std::filesystem::create_directories(place);
    test::write_tiny_model(place, each);
  }
  TinyRandom random(5);
  auto request = greedy(random_ids(random, 20, model.vocab), 32);
  request.top_activations = true;
  const auto engine = load(folder / "1");
  const auto honest = engine->generate_and_wait(request).value();
  const auto recorded =
      parsed(encode_fingerprint(honest.top_activations), 32, model.hidden).value();
  const auto again = engine->score(request, ids_of(honest)).value();
  EXPECT_EQ(compare_fingerprint(recorded, again.top_activations).exact, 1u);
  const auto weights = load(folder / "2")->score(request, ids_of(honest)).value();
  EXPECT_EQ(compare_fingerprint(recorded, weights.top_activations).accepted, 0u);
  request.prompt_ids = random_ids(random, 20, model.vocab);
  const auto prompt = engine->score(request, ids_of(honest)).value();
  EXPECT_EQ(compare_fingerprint(recorded, prompt.top_activations).exact, 0u);
}

}  // namespace
}  // namespace verbatim::local_engine
