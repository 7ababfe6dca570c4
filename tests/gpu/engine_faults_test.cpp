// What becomes of requests when the device is missing, unfit, full or lost: one line that says so, or the processor's answer
// with the same bits. The emulation plays the device.

#include "tests/gpu/device_engine.hpp"

#include <future>

namespace verbatim::local_engine {
namespace {

using emulation::DeviceState;
using test::TinyModel;
using test::TinyRandom;

// ---- what the device is

TEST_F(EngineOnDevice, AProfileThatTheDeviceDoesNotComputeIsRefused) {
  const auto folder = written(variants()[8]);
  auto options = on_device();
  options.profile = "mma-hopper/1";
  emulation::device().major = 8;
  const auto refused = Engine::load(folder, options).error();
  EXPECT_EQ(refused.code, Errc::unsupported);
  EXPECT_EQ(refused.what,
            "the tensor cores of emulated device, compute capability 8.0 do not compute profile "
            "mma-hopper/1");
  emulation::device().major = 9;
  EXPECT_EQ(Engine::load(written(variants()[3]), options).error().what,
            "there are no CUDA kernels for experts under profile mma-hopper/1");
}

TEST_F(EngineOnDevice, ADeviceThatCannotServeIsNamedInOneLine) {
  const auto folder = written(variants()[0]);
  const struct {
    DeviceState state;
    Errc code;
    std::string what;
  } cases[] = {
      {{.driver_version = 0}, Errc::unavailable, "no CUDA device: there is no NVIDIA driver"},
      {{.driver_version = 12040},
       Errc::unavailable,
       "no CUDA device: the driver is for CUDA 12.4, and this build needs 13.0"},
      {{.count = 0}, Errc::unavailable, "no CUDA device: the driver shows none"},
      {{.major = 7, .minor = 5},
       Errc::unsupported,
       "emulated device, compute capability 7.5: the kernels need 8.0"}};
  for (const auto& each : cases) {
    emulation::device() = each.state;
    for (const auto& error :
         {check_backend(on_device()).error(), Engine::load(folder, on_device()).error()}) {
      EXPECT_EQ(error.code, each.code);
      EXPECT_EQ(error.what, each.what);
    }
    // By configuration, the processor.
    EXPECT_TRUE(check_backend(on_device("cpu")));
    const auto engine = load(folder, on_device("cpu"));
    EXPECT_EQ(engine->backend(), best());
    EXPECT_EQ(engine->fallback_reason().find(each.what), 0u) << engine->fallback_reason();
    EXPECT_EQ(engine->generate_and_wait(greedy({7}, 1)).value().backends,
              std::vector<std::string>{best()});
  }
}

TEST_F(EngineOnDevice, CodeThatTheDriverCannotRunIsFoundAtTheStart) {
  const auto folder = written(variants()[0]);
  emulation::device().launches_left = 0;
  emulation::device().lost_error = 222;
  const auto error = Engine::load(folder, on_device()).error();
  EXPECT_EQ(error.code, Errc::unavailable);
  EXPECT_NE(error.what.find("compiled with an unsupported toolchain"), std::string::npos)
      << error.what;
}

TEST_F(EngineOnDevice, NamesThatAreNoneAreRefused) {
  EXPECT_EQ(check_backend(with_backend("cudda")).error().code, Errc::invalid_input);
  EXPECT_EQ(check_backend(on_device("gpu")).error().code, Errc::invalid_input);
}

// ---- memory

TEST_F(EngineOnDevice, WeightsThatDoNotFitAreRefusedAtTheStart) {
  const auto folder = written(variants()[0]);
  emulation::device().memory_bytes = 20'000;
  const auto error = Engine::load(folder, on_device()).error();
  EXPECT_EQ(error.code, Errc::unavailable);
  EXPECT_EQ(error.what.find("out of device memory: "), 0u) << error.what;
  EXPECT_EQ(load(folder, on_device("cpu"))->backend(), best());
  EXPECT_EQ(emulation::bytes_allocated(), 0u);
}

TEST_F(EngineOnDevice, RequestsForWhichThereIsNoMemoryAreUnavailableAndLaterOnesServed) {
  const auto folder = written(variants()[0]);
  const auto engine = load(folder, on_device());
  const auto request = greedy({7, 8, 9}, 2);
  emulation::device().memory_bytes = emulation::bytes_allocated() + 1000;
  const auto error = engine->generate_and_wait(request).error();
  EXPECT_EQ(error.code, Errc::unavailable);
  EXPECT_EQ(error.what.find("out of device memory: "), 0u) << error.what;
  emulation::device().memory_bytes = DeviceState{}.memory_bytes;
  expect_same(engine->generate_and_wait(request).value(),
              load(folder, on_processor())->generate_and_wait(request).value(), "later");
  EXPECT_EQ(engine->backend(), "cuda");
}

TEST_F(EngineOnDevice, WhatIsOnTheDeviceGoesWithTheEngine) {
  const auto folder = written(variants()[3]);
  auto engine = load(folder, on_device());
  (void)engine->generate_and_wait(greedy({7, 8, 9}, 2)).value();
  engine.reset();
  EXPECT_EQ(emulation::bytes_allocated(), 0u);
}

// ---- a device that is lost

TEST_F(EngineOnDevice, ALostDeviceMakesEveryRequestUnavailable) {
  const auto folder = written(variants()[0]);
  const auto engine = load(folder, on_device());
  emulation::device().launches_left = 30;
  for (int i = 0; i < 2; ++i) {
    const auto error = engine->generate_and_wait(greedy({7, 8, 9}, 9)).error();
    EXPECT_EQ(error.code, Errc::unavailable);
    EXPECT_NE(error.what.find("the CUDA device failed while "), std::string::npos) << error.what;
    EXPECT_NE(error.what.find("an illegal memory access"), std::string::npos) << error.what;
    // It stays so, whatever the device says: what is on it may be anything.
    if (i == 0) emulation::device() = {};
  }
}

/// Lost before the first pass, in a prompt, between tokens, within the last pass.
class LostDevice : public EngineOnDevice, public testing::WithParamInterface<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(AfterLaunches, LostDevice, testing::Values(0, 17, 45, 90, 130));

TEST_P(LostDevice, RequestsGoOnOnTheProcessorWithTheBitsThatTheyWouldHaveHad) {
  const TinyModel model = variants()[3];
  const auto folder = written(model);
  const auto expected = load(folder, on_processor());
  auto options = on_device("cpu");
  options.prefill_chunk = 4;
  const auto engine = load(folder, options);
  EXPECT_EQ(engine->backend(), "cuda");

  TinyRandom random(3);
  std::vector<GenerationRequest> requests;
  for (std::uint64_t i = 0; i < 3; ++i)
    requests.push_back(seeded(random_ids(random, 2 + 2 * i, model.vocab), 6, i));
  requests[1].layer_detail = LayerDetail::operators;
  requests[1].top_activations = true;
  std::vector<GenerationResult> right;
  for (const auto& request : requests)
    right.push_back(expected->generate_and_wait(request).value());

  emulation::device().launches_left = GetParam();
  std::vector<std::promise<Result<GenerationResult>>> ends(requests.size());
  std::vector<std::vector<TokenId>> streamed(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i)
    (void)engine->generate(
        requests[i], [&streamed, i](const TokenInfo& token) { streamed[i].push_back(token.id); },
        [&ends, i](auto result) { ends[i].set_value(std::move(result)); });
  const auto scored = engine->score(requests[2], ids_of(right[2]));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto answer = ends[i].get_future().get().value();
    expect_same(answer, right[i], std::to_string(i));
    EXPECT_EQ(streamed[i], ids_of(right[i])) << "a token was given out twice, or not at all";
    EXPECT_EQ(answer.backends.back(), best());
    if (!right[i].layer_digests) continue;
    EXPECT_EQ(answer.layer_digests->json(), right[i].layer_digests->json());
    EXPECT_EQ(answer.top_activations[0].indices, right[i].top_activations[0].indices);
  }
  expect_same(scored.value(), right[2], "scored");
  EXPECT_EQ(engine->backend(), best());
  EXPECT_NE(engine->fallback_reason().find("the CUDA device failed while "), std::string::npos);
  EXPECT_EQ(emulation::bytes_allocated(), 0u);
}

TEST_F(EngineOnDevice, AnAnswerSaysWhoComputedItsParts) {
  const TinyModel model = variants()[0];
  const auto folder = written(model);
  const auto engine = load(folder, on_device("cpu"));
  std::size_t given = 0;
  std::promise<Result<GenerationResult>> end;
  const auto request = greedy({7, 8, 9}, 6);
  (void)engine->generate(
      request,
      [&](const TokenInfo&) {
        if (++given == 3) emulation::device().launches_left = 0;
      },
      [&](auto result) { end.set_value(std::move(result)); });
  const auto answer = end.get_future().get().value();
  EXPECT_EQ(answer.backends, (std::vector<std::string>{"cuda", best()}));
  expect_same(answer, load(folder, on_processor())->generate_and_wait(request).value(), "moved");
}

}  // namespace
}  // namespace verbatim::local_engine
