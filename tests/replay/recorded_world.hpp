#pragma once
// A log with exchanges of the bundled demo model, and the verbs to forge them as an operator with the key could.

#include "audit/log.hpp"
#include "audit/reader.hpp"
#include "gateway/dialect.hpp"
#include "local_engine/engine.hpp"
#include "replay/replayer.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace verbatim::test {

/// One exchange before it is written: what a test may change.
struct Exchange {
  Uuid id;  ///< of its record, which the answer names
  std::string request_body;
  std::string response_body;
  std::string upstream = "local";
  std::optional<std::uint64_t> environment;  ///< index of the leaf that the request names
  Json request = Json::object();    ///< members of its leaf, in place of what they would be
  Json tokens;                      ///< `response.tokens`
  std::string layers, fingerprint;  ///< `response.layers`, `response.fingerprint`, if kept
  Json response = Json::object();   ///< members of the response leaf
};

/// A folder with a log and an engine. The engine is loaded once a process.
class RecordedWorld {
 public:
  explicit RecordedWorld(const std::filesystem::path& folder);

  /// Asks the engine as the gateway would, and returns the exchange that the gateway would record.
  Exchange answer(gateway::Api api, const std::string& request_body);
  /// Writes both leaves.
  Uuid record(gateway::Api api, const Exchange& exchange);
  /// answer() and record() of a greedy chat, with `forge` in between.
  Uuid chat(const std::string& question, const std::function<void(Exchange&)>& forge = {});
  /// A request without an end.
  Uuid open_request();

  /// Closes the log (so that what is queued is there) and replays one record.
  replay::Verdict replay(const Uuid& id, replay::Method method = replay::Method::score);

  [[nodiscard]] static std::shared_ptr<local_engine::Engine> engine();
  [[nodiscard]] static std::filesystem::path model_path();
  [[nodiscard]] audit::Log& log() { return *log_; }
  [[nodiscard]] std::unique_ptr<audit::LogReader> reader() const;

  /// Where replay() looks for models; the demo model's folder unless changed.
  std::vector<replay::ModelPlace> places;
  /// How it loads them.
  replay::EngineLoader loader = &local_engine::Engine::load;
  /// By what replay() judges answers of remote endpoints.
  std::optional<replay::Calibration> calibration;
  /// What the gateway's model keeps with its answers.
  std::size_t layer_digest_bytes = 0;
  bool activation_fingerprints = false;
  /// Answers in the place of engine(), and says that it is it: a recorder whose arithmetic or memory is at fault.
  std::shared_ptr<local_engine::Engine> recorder;
  /// What replay() explains.
  bool explain = false;
  std::optional<replay::Counterpart> against;
  /// The machine that replay() believes to be on.
  Json environment = {{"cpu", "test"}};

 private:
  std::filesystem::path folder_;
  ManualClock clock_{1'795'960'796'000'000};
  UuidGenerator ids_{clock_};
  std::unique_ptr<audit::Log> log_;
};

}  // namespace verbatim::test
