// A gateway that serves a model on the CUDA backend, executed by the emulation: what clients get, and what the log says of
// who computed it, with a device that works and with one that is lost.

#include "tests/gateway/gateway_fixture.hpp"
#include "tests/gpu/device_engine.hpp"

namespace verbatim::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class GatewayOnDevice : public GatewayTest {
 protected:
  void SetUp() override {
    emulation::device() = {};
    local_engine::provide(local_engine::cuda::backend());
    const auto folder = fresh_dir();
    const TinyModel model;
    write_tiny_model(folder, model);
    write_bytes(folder / "tokenizer.json", tiny_tokenizer(model.vocab));
    folder_ = folder;
  }
  void TearDown() override {
    stop();
    emulation::device() = {};
  }

  void start_with(const local_engine::EngineOptions& options) {
    start({{"tiny", "/somewhere/tiny", local_engine::load(folder_, options)}});
  }
  Message ask(int seed = 3) {
    Wire wire = client();
    wire.send(post(
        "/v1/completions",
        R"({"model":"tiny","prompt":[7,8,9],"max_tokens":6,"temperature":1,"ignore_eos":true,"seed":)" +
            std::to_string(seed) + "}"));
    return read_message(wire);
  }
  std::string recorded_digest(std::size_t answer) {
    const auto tokens =
        recorder_.content(recorder_.wait_for("response", answer + 1).at(answer), "response.tokens");
    return Json::parse(tokens)["choices"][0]["logits_digest"];
  }
  /// Of an engine on the processor.
  std::string right_digest(std::uint64_t seed = 3) {
    const auto request = local_engine::seeded({7, 8, 9}, 6, seed, 1);
    return local_engine::load(folder_, local_engine::on_processor())
        ->generate_and_wait(request)
        .value()
        .logits_digest.hex();
  }

  std::filesystem::path folder_;
};

TEST_F(GatewayOnDevice, TheRecordSaysThatTheDeviceComputed) {
  start_with(local_engine::on_device());
  const Message got = ask();
  ASSERT_THAT(got.head, StartsWith("HTTP/1.1 200 OK\r\n")) << got.body;
  const Json engine = response_leaf()["engine"];
  EXPECT_EQ(engine["backend"], "cuda");
  EXPECT_EQ(recorded_digest(0), right_digest());
}

TEST_F(GatewayOnDevice, WithoutTheDeviceRequestsGet503AndALeaf) {
  start_with(local_engine::on_device());
  emulation::device().launches_left = 40;
  for (std::size_t i = 1; i <= 2; ++i) {
    const Message got = ask();
    EXPECT_THAT(got.head, StartsWith("HTTP/1.1 503 ")) << got.body;
    EXPECT_THAT(got.body, HasSubstr("the CUDA device failed while "));
    const Json leaf = response_leaf(i);
    EXPECT_EQ(leaf["status"], "upstream_error");
    EXPECT_EQ(leaf["http_status"], 503);
  }
}

TEST_F(GatewayOnDevice, ByConfigurationTheProcessorGoesOnAndTheRecordNamesBoth) {
  start_with(local_engine::on_device("cpu"));
  const std::string right = right_digest();
  emulation::device().launches_left = 100;
  const Message got = ask();
  ASSERT_THAT(got.head, StartsWith("HTTP/1.1 200 OK\r\n")) << got.body;
  const Json first = response_leaf(1)["engine"];
  EXPECT_EQ(first["backend"], "cuda," + local_engine::best());
  EXPECT_EQ(recorded_digest(0), right);
  ASSERT_THAT(ask(4).head, StartsWith("HTTP/1.1 200 OK\r\n"));
  const Json second = response_leaf(2)["engine"];
  EXPECT_EQ(second["backend"], local_engine::best());
  EXPECT_EQ(recorded_digest(1), right_digest(4));
}

}  // namespace
}  // namespace verbatim::test
