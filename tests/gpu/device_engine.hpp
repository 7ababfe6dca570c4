#pragma once
// What the tests of the engine on the CUDA backend have in common. One text with the emulation and on a GPU.

#include "kernels/backend.hpp"
#include "local_engine/cuda/backend.hpp"
#include "tests/local_engine/engine_fixture.hpp"

#include <cuda_runtime.h>

#include <string>
#include <utility>
#include <vector>

namespace verbatim::local_engine {

inline EngineOptions on_device(const std::string& fallback = "refuse") {
  EngineOptions options = with_backend("cuda");
  options.threads = 1;
  options.cuda_fallback = fallback;
  return options;
}

inline EngineOptions on_processor() {
  EngineOptions options;
  options.threads = 1;
  return options;
}

inline std::string best() { return std::string(kernels::name(kernels::best_backend())); }

inline test::TinyModel variant(const std::string& architecture, Json config = Json::object()) {
  test::TinyModel model;
  model.architecture = architecture;
  model.config = std::move(config);
  return model;
}

/// One of each way in which the forward pass differs.
inline std::vector<test::TinyModel> variants() {
  std::vector<test::TinyModel> all = {
      variant("LlamaForCausalLM"),
      variant("MistralForCausalLM", {{"sliding_window", 7}}),
      variant("Qwen3ForCausalLM"),
      variant("MixtralForCausalLM"),
      variant("OlmoeForCausalLM", {{"norm_topk_prob", false}}),
      variant("Gemma2ForCausalLM", {{"sliding_window", 6},
                                    {"query_pre_attn_scalar", 11},
                                    {"attn_logit_softcapping", 3.0},
                                    {"final_logit_softcapping", 2.0}}),
      variant("Gemma3ForCausalLM", {{"sliding_window", 5},
                                    {"sliding_window_pattern", 2},
                                    {"query_pre_attn_scalar", 8},
                                    {"rope_theta", 1e6},
                                    {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}}),
      variant("Phi3ForCausalLM", {{"partial_rotary_factor", 0.75},
                                  {"rope_scaling",
                                   {{"rope_type", "longrope"},
                                    {"short_factor", {1.0, 1.5, 4.0}},
                                    {"attention_factor", 1.2}}}}),
      variant("LlamaForCausalLM")};
  all[2].qk_norm = all[4].qk_norm = all[6].qk_norm = true;
  all[3].experts = all[4].experts = 5;
  all[5].tied = all[6].tied = true;
  all[8].qkv_bias = all[8].output_bias = all[8].mlp_bias = true;
  all[8].dtype = "BF16";
  return all;
}

class EngineOnDevice : public testing::Test {
 protected:
  void SetUp() override {
#ifdef VERBATIM_CUDA_EMULATION
    emulation::device() = {};
    emulation::hide_from_host(true);
#else
    if (const auto device = cuda::backend().device(); !device)
      GTEST_SKIP() << "SKIPPED: " << device.error().message();
#endif
    provide(cuda::backend());
  }
#ifdef VERBATIM_CUDA_EMULATION
  void TearDown() override {
    emulation::hide_from_host(false);
    emulation::device() = {};
  }
#endif

  static std::filesystem::path written(const test::TinyModel& model) {
    auto folder = test::fresh_dir();
    test::write_tiny_model(folder, model);
    return folder;
  }
};

}  // namespace verbatim::local_engine
