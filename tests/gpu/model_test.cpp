// Whole models with the GPU's kernels: the logits of every position, in any cut of the sequence into passes, have the CPU's
// bits; and the golden results of profile f32-k256/1 come out, tokens and digests.

#include "local_engine/model/model.hpp"

#include "kernels/logits/logits_cuda.hpp"
#include "kernels/sampling/sampling_cuda.hpp"
#include "schema/bytes.hpp"
#include "schema/canonical_json.hpp"
#include "tests/gpu/device_model.hpp"
#include "tests/support/shared.hpp"
#include "tests/support/tiny_model.hpp"

#include <fstream>
#include <string>

namespace verbatim::kernels::test {
namespace {

using local_engine::ModelConfig;
using local_engine::ModelFiles;
using local_engine::ModelWeights;
using local_engine::TokenId;
using verbatim::test::TinyModel;

struct Loaded {
  ModelConfig config;
  ModelWeights weights;
};
Loaded load(const ModelFiles& files) {
  Loaded loaded{local_engine::read_config(files).value(), {}};
  loaded.weights = local_engine::load_weights(files, loaded.config, nullptr).value();
  return loaded;
}

/// The CPU's logits of every id, (ids, vocab), in one pass.
std::vector<float> cpu_logits(const ModelFiles& files, const std::vector<TokenId>& ids) {
  const auto model = local_engine::Model::load(files, best_backend(), 1, Profile::f32_k256).value();
  local_engine::SequenceKv kv(model->config().layers);
  for (std::size_t at = 0; at < ids.size(); at += kBlock) kv.append(model->new_kv_block());
  std::vector<local_engine::ForwardRow> rows;
  for (std::size_t i = 0; i < ids.size(); ++i) rows.push_back({ids[i], i, &kv, true, false});
  model->forward(rows);
  std::vector<float> logits(ids.size() * model->config().vocab_size);
  model->logits(0, ids.size(), logits.data());
  return logits;
}

TinyModel variant(const std::string& architecture, Json config = Json::object()) {
  TinyModel model;
  model.architecture = architecture;
  model.config = std::move(config);
  return model;
}

std::vector<TinyModel> variants() {
  std::vector<TinyModel> all = {variant("LlamaForCausalLM"),
                                variant("MistralForCausalLM", {{"sliding_window", 17}}),
                                variant("Qwen3ForCausalLM"),
                                variant("MixtralForCausalLM"),
                                variant("Qwen3MoeForCausalLM", {{"norm_topk_prob", false}}),
                                variant("LlamaForCausalLM"),
                                variant("LlamaForCausalLM")};
  all[2].qk_norm = all[4].qk_norm = true;
  all[3].experts = all[4].experts = 6;
  all[5].qkv_bias = all[5].output_bias = all[5].mlp_bias = true;
  all[5].dtype = "F16";
  all[5].kv_heads = 1;
  all[6].tied = true;
  all[6].dtype = "BF16";
  all[6].hidden = 300;
  all[6].intermediate = 530;
  all[6].head_dim = 10;
  return all;
}

class Models : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
      GTEST_SKIP() << "SKIPPED: no CUDA device: the kernels' bits on a GPU were not compared";
    begin_run(GetParam() % kRuns);
  }
  void TearDown() override { begin_run(0); }

  /// `ids` in passes of these sizes, against the CPU's one pass.
  void compare(const TinyModel& tiny, std::size_t count, const std::vector<std::size_t>& passes) {
    const auto folder = verbatim::test::fresh_dir();
    verbatim::test::write_tiny_model(folder, tiny);
    const ModelFiles files = local_engine::open_model(folder).value();
    const Loaded loaded = load(files);
    verbatim::test::TinyRandom random(5);
    std::vector<TokenId> ids;
    for (std::size_t i = 0; i < count; ++i)
      ids.push_back(static_cast<TokenId>(random.below(tiny.vocab)));
    const std::vector<float> expected = cpu_logits(files, ids);
    DeviceModel model(loaded.config, loaded.weights, count);
    DeviceMemory memory;
    std::size_t at = 0;
    for (const std::size_t rows : passes) {
      const std::vector<TokenId> part(ids.begin() + static_cast<std::ptrdiff_t>(at),
                                      ids.begin() + static_cast<std::ptrdiff_t>(at + rows));
      const std::vector<float> logits = memory.download(model.forward(part), rows * tiny.vocab);
      ASSERT_TRUE(
          same_bits(logits, std::span(expected).subspan(at * tiny.vocab, rows * tiny.vocab)))
          << tiny.architecture << " from position " << at;
      EXPECT_FALSE(model.out_of_range());
      at += rows;
    }
    EXPECT_EQ(at, count);
  }
};
INSTANTIATE_TEST_SUITE_P(Variants, Models, testing::Range<std::size_t>(0, variants().size()));

TEST_P(Models, HaveTheCpusLogitsHoweverTheSequenceIsCut) {
  compare(variants()[GetParam()], 40, {23, 1, 1, 2, 9, 4});
}

TEST_P(Models, AlsoBeyondThePageOf256Positions) {
  // One of them, and another with a window.
  compare(variants()[GetParam() % 2], 262, {251, 1, 8, 1, 1});
}

std::vector<Json> lines(const std::filesystem::path& file) {
  std::vector<Json> all;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) all.push_back(parse_json(line).value());
  return all;
}

/// Some lines of a file of golden results.
struct Golden {
  std::string model, file;
  std::size_t lines_max = 2;
};
class GoldenOnDevice : public testing::TestWithParam<Golden> {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
      GTEST_SKIP() << "SKIPPED: no CUDA device: the kernels' bits on a GPU were not compared";
  }
};
INSTANTIATE_TEST_SUITE_P(
    Files, GoldenOnDevice,
    testing::Values(Golden{"tiny-random-llama", "golden-f32-k256.jsonl"},
                    Golden{"tiny-random-mistral", "golden-f32-k256.jsonl"},
                    Golden{"tiny-random-qwen2", "golden-f32-k256.jsonl"},
                    Golden{"tiny-random-qwen3", "golden-f32-k256.jsonl"},
                    Golden{"tiny-random-qwen3", "golden-f32-k256-sampled.jsonl"},
                    Golden{"tiny-random-mixtral", "golden-f32-k256.jsonl"},
                    Golden{"tiny-random-qwen3-moe", "golden-f32-k256.jsonl"},
                    Golden{"stories260K-hf", "golden-f32-k256-sampled.jsonl", 1},
                    Golden{"wide-random-llama", "golden-f32-k256.jsonl"}),
    [](const auto& golden) {
      std::string name = golden.param.model + "_" + golden.param.file;
      for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      return name;
    });

TEST_P(GoldenOnDevice, TokensAndDigestsComeOutOfOnePassOverPromptAndAnswer) {
  VERBATIM_NEED_SHARED(folder, "data/models/" + GetParam().model);
  const ModelFiles files = local_engine::open_model(folder).value();
  const Loaded loaded = load(files);
  auto golden = lines(folder / GetParam().file);
  golden.resize(std::min(golden.size(), GetParam().lines_max));
  ASSERT_FALSE(golden.empty());
  for (const Json& line : golden) {
    const bool sampled = line.contains("seed");
    auto ids = line.at("prompt_ids").get<std::vector<TokenId>>();
    const auto answer = line.at(sampled ? "sampled_ids" : "greedy_ids").get<std::vector<TokenId>>();
    const std::size_t prompt = ids.size(), count = answer.size();
    ids.insert(ids.end(), answer.begin(), answer.end() - 1);
    DeviceModel model(loaded.config, loaded.weights, ids.size());
    DeviceMemory memory;
    cuda::LogitRows rows;
    rows.count = rows.stride = loaded.config.vocab_size;
    rows.rows = count;
    rows.logits = model.forward(ids) + (prompt - 1) * rows.stride;
    EXPECT_FALSE(model.out_of_range());

    auto* device_digests = memory.fresh<std::uint8_t>(count * 32);
    cuda::row_digests(rows, memory.fresh<std::uint32_t>(cuda::digest_scratch_words(rows)),
                      device_digests, nullptr);
    const std::vector<std::uint8_t> digests = memory.download(device_digests, count * 32);
    EXPECT_EQ(sha256(Bytes(digests.data(), digests.size())).hex(),
              line.at("logits_digest").get<std::string>());

    std::vector<cuda::SamplerRow> params(count);
    for (std::size_t i = 0; i < count; ++i) {
      params[i].position = static_cast<std::uint32_t>(prompt + i);
      if (!sampled) continue;
      params[i].seed = line.at("seed").get<std::uint64_t>();
      params[i].temperature =
          static_cast<float>(std::stod(line.at("temperature").get<std::string>()));
    }
    cuda::SamplerArgs args;
    args.logits = rows.logits;
    args.rows = count;
    args.count = args.stride = rows.count;
    args.params = memory.upload(params);
    args.scratch = memory.fresh<float>(count * 2 * rows.count);
    args.choices = memory.fresh<cuda::TokenChoice>(count);
    cuda::choose_tokens(args, nullptr);
    const auto choices = memory.download(args.choices, count);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(to_hex(Bytes(digests.data() + i * 32, 8)),
                line.at("row_digest8")[i].get<std::string>())
          << "row " << i;
      ASSERT_EQ(choices[i].id, answer[i]) << "token " << i;
    }
  }
}

}  // namespace
}  // namespace verbatim::kernels::test
