#include "tests/replay/recorded_world.hpp"

#include "gateway/leaf_texts.hpp"
#include "gateway/local_answer.hpp"
#include "gateway/local_request.hpp"

namespace verbatim::test {

std::filesystem::path RecordedWorld::model_path() {
  return std::filesystem::path(VERBATIM_SOURCE_DIR) / "local_engine/demo/model";
}

std::shared_ptr<local_engine::Engine> RecordedWorld::engine() {
  static const std::shared_ptr<local_engine::Engine> engine = [] {
    local_engine::EngineOptions options;
    options.threads = 1;
    return local_engine::Engine::load(model_path(), options).value();
  }();
  return engine;
}

RecordedWorld::RecordedWorld(const std::filesystem::path& folder)
    : places{{"demo", model_path()}}, folder_(folder) {
  audit::LogOptions options;
  options.data_dir = folder;
  options.mode = audit::DurabilityMode::relaxed;
  options.listen = false;
  log_ = audit::Log::open(options, clock_).value();
}

namespace {

/// One choice after another.
std::string streamed(const gateway::LocalAnswer& written,
                     std::vector<gateway::LocalChoice>& choices) {
  std::string body = written.begin();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto& result = choices[i].result;
    for (const auto& token : result.tokens) body += written.piece(i, token.text, &token);
    choices[i].given = result.text.size();
    body += written.finish(i, choices[i]);
  }
  return body + written.end(choices);
}

}  // namespace

Exchange RecordedWorld::answer(gateway::Api api, const std::string& request_body) {
  const std::shared_ptr<local_engine::Engine> demo = recorder ? recorder : engine();
  const auto question =
      gateway::read_local_request(api, request_body, *demo, clock_.now_us(), /*fresh_seed=*/7)
          .value();
  std::vector<gateway::LocalChoice> choices;
  for (auto request : question.choices) {
    if (layer_digest_bytes > 0) request.layer_detail = local_engine::LayerDetail::residual;
    request.top_activations = activation_fingerprints;
    gateway::LocalChoice choice;
    choice.result = demo->generate_and_wait(request).value();
    choice.done = true;
    choices.push_back(std::move(choice));
  }
  Exchange exchange;
  exchange.request_body = request_body;
  exchange.id = ids_.next();
  const gateway::LocalAnswer written(
      api, question, *demo, exchange.id.str(), clock_.now_us(),
      gateway::local_fingerprint(local_engine::build_id(), demo->profile(),
                                 engine()->fingerprint().weights_sha256.hex()));
  exchange.response_body = question.stream ? streamed(written, choices) : written.whole(choices);
  exchange.tokens = Json::parse(gateway::tokens_content(question, choices));
  exchange.response = {{"status", "complete"},
                       {"http_status", 200},
                       {"cache", "miss"},
                       {"usage", gateway::describe_usage(question, choices)},
                       {"engine", gateway::describe_engine(*demo, choices)}};
  exchange.response["engine"]["weights_sha256"] = engine()->fingerprint().weights_sha256.hex();
  exchange.layers = gateway::layers_content(choices, layer_digest_bytes);
  exchange.fingerprint = gateway::fingerprint_content(choices);
  return exchange;
}

Uuid RecordedWorld::record(gateway::Api api, const Exchange& exchange) {
  const Uuid id = exchange.id;
  audit::LeafDraft request;
  request.type = "request";
  request.id = id;
  request.fields = {{"route", {{"api", gateway::api_name(api)}, {"upstream", exchange.upstream}}},
                    {"model", {{"requested", "demo"}, {"level", "measured"}}},
                    {"mode", "relaxed"}};
  for (const auto& [name, value] : gateway::read_request(api, exchange.request_body).params) {
    if (gateway::is_leaf_param(name, value)) request.fields["params"][name] = value;
  }
  request.fields.update(exchange.request);
  if (exchange.environment) request.fields["environment"] = *exchange.environment;
  request.contents.push_back({"request.body", exchange.request_body});
  const auto appended = log_->append_and_wait(std::move(request)).value();

  audit::LeafDraft response;
  response.type = "response";
  response.id = id;
  response.fields = exchange.response;
  response.fields["request"] = appended.index;
  if (!exchange.tokens.is_null())
    response.contents.push_back({"response.tokens", exchange.tokens.dump()});
  if (!exchange.layers.empty()) response.contents.push_back({"response.layers", exchange.layers});
  if (!exchange.fingerprint.empty())
    response.contents.push_back({"response.fingerprint", exchange.fingerprint});
  response.contents.push_back({"response.body", exchange.response_body});
  (void)log_->append_and_wait(std::move(response)).value();
  return id;
}

Uuid RecordedWorld::chat(const std::string& question, const std::function<void(Exchange&)>& forge) {
  const Json body = {{"model", "demo"},
                     {"temperature", 0},
                     {"max_tokens", 64},
                     {"messages", Json::array({{{"role", "user"}, {"content", question}}})}};
  Exchange exchange = answer(gateway::Api::openai_chat, body.dump());
  if (forge) forge(exchange);
  return record(gateway::Api::openai_chat, exchange);
}

Uuid RecordedWorld::open_request() {
  const Uuid id = ids_.next();
  audit::LeafDraft request;
  request.type = "request";
  request.id = id;
  request.fields = {{"model", {{"requested", "demo"}}}};
  (void)log_->append_and_wait(std::move(request)).value();
  return id;
}

std::unique_ptr<audit::LogReader> RecordedWorld::reader() const {
  return audit::LogReader::open(folder_).value();
}

replay::Verdict RecordedWorld::replay(const Uuid& id, replay::Method method) {
  local_engine::EngineOptions options;
  options.threads = 1;
  replay::Engines engines(places, options, loader);
  replay::Environments environments(environment);
  replay::RecordedModels models;
  const auto log_reader = reader();
  return replay::replay_record(
             *log_reader, id,
             {engines, environments, models, calibration ? &*calibration : nullptr, method, clock_,
              explain, against ? &*against : nullptr})
      .value();
}

}  // namespace verbatim::test
