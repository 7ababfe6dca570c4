// Mutated model files: whatever they hold, reading them ends with a model or an error, under the
// sanitizers too.

#include "local_engine/files/gguf.hpp"
#include "local_engine/files/safetensors.hpp"
#include "local_engine/model/model_files.hpp"
#include "local_engine/model/weights.hpp"
#include "tests/local_engine/engine_fixture.hpp"
#include "tests/local_engine/model_bytes.hpp"

namespace verbatim::local_engine {
namespace {

using test::TinyModel;
using test::TinyRandom;

constexpr int kIterations = 1000;

TinyModel smallest() {
  TinyModel model;
  model.layers = 1;
  model.hidden = 8;
  model.intermediate = 4;
  model.heads = model.kv_heads = 1;
  model.vocab = 5;
  return model;
}

/// One to four changes: bytes, runs, cuts, insertions and integers at the bounds, mostly in the
/// first `head` bytes, where the structure is.
std::string mutated(std::string bytes, std::size_t head, TinyRandom& random) {
  static constexpr std::uint64_t kExtremes[] = {
      0, 1, 0x7f, 0xff, 0x7fffffff, 0xffffffff, 1ull << 32, 1ull << 63, ~0ull};
  const std::size_t changes = 1 + random.below(4);
  for (std::size_t n = 0; n < changes && !bytes.empty(); ++n) {
    const std::size_t region = random.below(8) == 0 ? bytes.size() : std::min(head, bytes.size());
    const std::size_t at = random.below(region);
    switch (random.below(6)) {
      case 0:
        bytes[at] = static_cast<char>(random.next());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(at, std::string(1 + random.below(9), static_cast<char>(random.next())));
        break;
      case 4:
        bytes.erase(at, 1 + random.below(9));
        break;
      default: {
        const auto value = test::little_endian(kExtremes[random.below(std::size(kExtremes))], 8);
        bytes.replace(at, std::min<std::size_t>(8, bytes.size() - at), value, 0,
                      1ull << random.below(4));
      }
    }
  }
  return bytes;
}

/// Loads as far as it goes: everything but the engine's thread.
bool read_everything(const std::filesystem::path& path) {
  const auto files = open_model(path);
  if (!files) {
    EXPECT_FALSE(files.error().what.empty());
    return false;
  }
  const auto config = read_config(*files);
  if (!config) return false;
  return load_weights(*files, *config, nullptr).has_value();
}

TEST(FuzzTest, MutatedSafetensorsNeverCrashTheReader) {
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, smallest());
  const auto good = test::safetensors_bytes(test::tiny_tensors(smallest()), "F32");
  TinyRandom random(1);
  int accepted = 0;
  for (int i = 0; i < kIterations; ++i) {
    test::write_bytes(folder / "model.safetensors", mutated(good, 1500, random));
    accepted += read_everything(folder) ? 1 : 0;
  }
  // Some mutations hit only numbers of the weights; most must be refused.
  EXPECT_LT(accepted, kIterations / 2);
}

TEST(FuzzTest, MutatedGgufNeverCrashesTheReader) {
  const auto file = test::fresh_dir() / "model.gguf";
  const auto good = test::gguf_bytes(smallest());
  TinyRandom random(2);
  int accepted = 0;
  for (int i = 0; i < kIterations; ++i) {
    test::write_bytes(file, mutated(good, 1400, random));
    accepted += read_everything(file) ? 1 : 0;
  }
  EXPECT_LT(accepted, kIterations / 2);
}

TEST(FuzzTest, MutatedConfigurationsNeverCrashTheReader) {
  const auto folder = test::fresh_dir();
  test::write_tiny_model(folder, smallest());
  const auto good = test::tiny_config(smallest()).dump();
  TinyRandom random(3);
  for (int i = 0; i < kIterations; ++i) {
    test::write_bytes(folder / "config.json", mutated(good, good.size(), random));
    (void)read_everything(folder);
  }
}

}  // namespace
}  // namespace verbatim::local_engine
