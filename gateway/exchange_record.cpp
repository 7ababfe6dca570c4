// The two leaves of an exchange: what is recorded of it, made of the redacted copies.

#include "gateway/exchange.hpp"
#include "gateway/header_rules.hpp"
#include "gateway/leaf_texts.hpp"

#include <utility>

namespace verbatim::gateway {

audit::LeafDraft Exchange::request_leaf() {
  audit::LeafDraft draft;
  draft.type = "request";
  draft.id = id_;
  draft.subject = subject_;
  Json& fields = draft.fields;
  fields["mode"] = mode_name(services_.config.mode);

  const bool as_it_came = capture_.as_it_came();
  std::optional<Fields> redacted_headers;
  if (!as_it_came) redacted_headers = capture_.fields(head_.fields, "request.headers");
  const Fields& headers = redacted_headers ? *redacted_headers : head_.fields;
  std::optional<RequestFacts> redacted_facts;
  std::optional<Capture::Body> redacted_body;
  if (capture_.redacts()) {
    redacted_body = capture_.body(
        body_,
        {head_.fields.get("content-type"), coded_ ? head_.fields.get("content-encoding") : "", api_,
         false, services_.config.limits.decoded_bytes_max},
        "request.body");
    redacted_facts = read_request(api_, redacted_body->text);
  }

  const std::string target =
      as_it_came ? redacted_target(head_.target) : capture_.target(head_.target);
  if (redacted_facts && asks_for_websocket(head_)) {
    redacted_facts->model = query_parameter(target, "model");
  }
  if (redacted_facts) read_target(api_, target, *redacted_facts);
  const RequestFacts& facts = redacted_facts ? *redacted_facts : facts_;
  const std::string told_target = leaf_target(target);
  Json route = {{"api", api_name(api_)},
                {"method", leaf_text(head_.method, 32)},
                {"target", leaf_text(told_target, 2048)}};
  if (upstream_ != nullptr) {
    route["upstream"] = upstream_->local() ? "local" : std::string(upstream_->name());
    fields["model"] = upstream_->describe_model(facts_.model);
    if (facts.model != facts_.model) fields["model"]["requested"] = leaf_text(facts.model, 256);
    if (facts.model.empty()) fields["model"].erase("requested");
  } else if (!facts.model.empty()) {
    fields["model"] = {{"requested", leaf_text(facts.model, 256)}};
  }
  fields["route"] = std::move(route);
  describe_params(facts, fields);
  if (facts_.is_json && may_sample(api_)) {
    fields["determinism"] = determinism_of(facts_);
  }
  if (rest_) fields["body"] = "streamed";
  if (coded_) {
    Json& coding = fields["coding"];
    coding["name"] = leaf_text(head_.fields.get("content-encoding"), 64);
    if (!unread_.empty()) coding["unread"] = unread_;
  }
  if (admission_) fields["key"] = leaf_text(admission_->key().name, 64);
  fields["tenant"] = tenant();
  fields["subject"] = subject_;
  describe_client(headers, fields);
  if (services_.environment) fields["environment"] = *services_.environment;
  if (upstream_ != nullptr && !upstream_->local()) {
    const auto said = services_.upstream_facts.leaf_of(upstream_->name());
    if (said) fields["upstream_environment"] = *said;
  }

  if (told_target != target) capture_.keep(draft, "request.target", target);
  if (!headers.all().empty()) {
    capture_.keep(draft, "request.headers", fields_as_json(headers));
  }
  if (!body_.empty() && (!redacted_body || redacted_body->kept)) {
    capture_.keep(draft, "request.body", redacted_body ? std::move(redacted_body->bytes) : body_,
                  "request.digest");
  }
  if (Json told = capture_.take_description(); !told.is_null()) fields["capture"] = std::move(told);
  return draft;
}

void Exchange::describe_params(const RequestFacts& facts, Json& leaf) {
  Json params = Json::object();
  Json in_body = Json::array();
  for (const auto& [name, value] : facts.params) {
    if (is_leaf_param(name, value)) {
      params[name] = value;
    } else if (capture_.level() == CaptureLevel::full) {
      in_body.push_back(name);
    } else {
      capture_.leave_out("params." + name, "level");
    }
  }
  if (!params.empty()) leaf["params"] = std::move(params);
  if (!in_body.empty()) leaf["params_in_body"] = std::move(in_body);
}

void Exchange::describe_client(const Fields& fields, Json& leaf) const {
  Json client = Json::object();
  for (const auto& [name, header] :
       {std::pair("user_agent", "user-agent"), std::pair("traceparent", "traceparent")}) {
    const std::string* value = fields.find(header);
    if (value == nullptr || (header == std::string_view("traceparent") && !is_traceparent(*value)))
      continue;
    client[name] = leaf_text(*value, 256);
  }
  if (!client.empty()) leaf["client"] = std::move(client);
}

audit::LeafDraft Exchange::response_leaf(const Outcome& outcome, std::string body,
                                         bool may_be_canonical) {
  audit::LeafDraft draft;
  draft.type = "response";
  draft.id = id_;
  draft.subject = subject_;
  draft.fields["request"] = *request_index_;
  draft.fields["status"] = status_name(outcome.status);
  draft.fields["cache"] = cache_status_;
  if (outcome.status == EndStatus::cache_hit) draft.fields["origin"] = hit_->origin.str();
  draft.fields["http_status"] =
      tee_.head_given() && (tee_.begun() || !client_->gone()) ? tee_.status() : 499;
  const auto redacted_facts = record_answer(draft, std::move(body));
  describe_end(outcome, redacted_facts ? *redacted_facts : tee_.facts(), draft.fields);
  record_replaced(draft);
  record_engine(draft, outcome);
  record_websocket(draft);
  record_observation(draft);
  if (rest_) capture_.keep_sample(draft, rest_->sample, "request");
  if (may_be_canonical && capture_.repeatable()) {
    const auto ttl = services_.config.cache.ttl;
    const std::int64_t expires_us =
        ttl.count() == 0 ? 0 : services_.clock.now_us() + ttl.count() * 1'000'000;
    draft.canonical = audit::CanonicalOutput{*cache_key_, expires_us};
  }
  if (Json told = capture_.take_description(); !told.is_null()) {
    draft.fields["capture"] = std::move(told);
  }
  return draft;
}

/// Head, event times and body of the answer. Returns what the redacted copies say, if they are that.
std::optional<ResponseFacts> Exchange::record_answer(audit::LeafDraft& draft, std::string body) {
  std::optional<ResponseFacts> facts;
  std::function<std::size_t(std::size_t)> place;
  Capture::Body seen;
  std::optional<Fields> redacted_headers;
  const bool sampled = tee_.sample() != nullptr;
  if (capture_.redacts()) {
    // The seed that a model served here was given is a number like any, and the gateway's own word.
    redacted_headers =
        capture_.fields(tee_.fields(), "response.headers",
                        upstream_ != nullptr && upstream_->local() ? "x-verbatim-seed" : "");
    if (!sampled) {
      seen =
          capture_.body(body,
                        {tee_.fields().get("content-type"), tee_.fields().get("content-encoding"),
                         api_, true, services_.config.limits.decoded_bytes_max},
                        "response.body");
      body = std::move(seen.bytes);
      place = MovedPlaces(seen.redaction.edits);
    }
    facts.emplace(api_);
    ResponseHead head;
    head.fields = *redacted_headers;
    facts->read_head(head);
    if (tee_.is_stream()) {
      facts->read_stream(seen.text);
    } else {
      facts->read_json(seen.text);
    }
  }
  const Fields& headers = redacted_headers ? *redacted_headers : tee_.fields();
  if (tee_.head_given()) capture_.keep(draft, "response.headers", fields_as_json(headers));
  if (tee_.is_stream() && seen.kept) {
    capture_.keep(draft, "response.events", tee_.events_json(place));
  }
  if (sampled) {
    capture_.keep_sample(draft, *tee_.sample(), "response");
  } else if (seen.kept) {
    capture_.keep(draft, "response.body", std::move(body), "response.digest");
  }
  return facts;
}

void Exchange::record_replaced(audit::LeafDraft& draft) {
  if (replaced_.body.empty()) return;
  if (!capture_.redacts()) return capture_.keep(draft, "upstream.body", replaced_.body);
  auto seen = capture_.body(replaced_.body,
                            {replaced_.content_type, replaced_.coding, api_, true,
                             services_.config.limits.decoded_bytes_max},
                            "upstream.body");
  if (seen.kept) capture_.keep(draft, "upstream.body", std::move(seen.bytes));
}

void Exchange::record_observation(audit::LeafDraft& draft) {
  if (!observed_) return;
  Json& observed = draft.fields["observed"];
  observed["origin"] = observed_->origin.str();
  if (!observation_) return;
  observed["result"] = observation_name(observation_->result);
  if (!observation_->form.empty()) {
    observed["form"] = describe_normal_form(observation_->form);
    observed["normal_result"] = observation_name(observation_->normal_result);
  }
  if (observation_->digests.empty()) return;
  // Digests would confirm a guess of what was taken out; and they are of texts, so they are a content.
  if (capture_.repeatable()) {
    draft.contents.push_back({"response.observed", observation_->digests});
  } else {
    capture_.leave_out("response.observed", capture_.reason());
  }
}

void Exchange::record_websocket(audit::LeafDraft& draft) {
  if (!websocket_ || !websocket_->opened()) return;
  Json about = websocket_->describe();
  for (const auto& [name, side] : {std::pair("client", &websocket_->from_client()),
                                   std::pair("upstream", &websocket_->from_upstream())}) {
    about[name] = capture_.keep_passed(draft, side->sample, "websocket." + std::string(name),
                                       std::move(about[name]));
  }
  capture_.keep(draft, "websocket.frames", websocket_->frames_json());
  draft.fields["websocket"] = std::move(about);
}

/// Tokens, digests and fingerprints are functions of the texts: whoever has the model could find out from them what was
/// taken out, or confirm a guess of what was erased. So they are contents, and nothing of them is in the leaf.
void Exchange::record_engine(audit::LeafDraft& draft, const Outcome& outcome) {
  if (outcome.engine) draft.fields["engine"] = *outcome.engine;
  const bool kept = capture_.repeatable();
  for (const auto& [field, content] : {std::pair("response.tokens", &outcome.tokens),
                                       std::pair("response.layers", &outcome.layers),
                                       std::pair("response.fingerprint", &outcome.fingerprint)}) {
    if (content->empty()) continue;
    if (kept) {
      draft.contents.push_back({field, *content});
    } else {
      capture_.leave_out(field, capture_.reason());
    }
  }
}

void Exchange::describe_end(const Outcome& outcome, const ResponseFacts& facts, Json& fields) {
  facts.describe(fields);
  if (!outcome.usage.is_null()) fields["usage"] = outcome.usage;
  if (!outcome.address.empty()) fields["upstream"]["address"] = outcome.address;
  if (tee_.is_stream() || tee_.facts().events() > 0) {
    fields["stream"] = {{"events", tee_.facts().events()}};
  }
  if (tee_.comments() > 0) fields["stream"]["keep_alive_comments"] = tee_.comments();
  Json timing = {{"total_us", services_.clock.steady_us() - arrived_us_}};
  if (const auto first = tee_.first_byte_us()) timing["first_byte_us"] = *first;
  fields["timing"] = std::move(timing);
  if (outcome.status != EndStatus::complete && outcome.status != EndStatus::cache_hit) {
    fields["error"] = {{"kind", leaf_text(outcome.error_kind, 64)}};
    // What refuses a request may repeat it. The client was told it all, and that body can be erased.
    if (outcome.status == EndStatus::rejected) return;
    const std::string message =
        capture_.as_it_came() ? outcome.error_message : capture_.message(outcome.error_message);
    if (!message.empty()) fields["error"]["message"] = leaf_text(message, 512);
  }
}

}  // namespace verbatim::gateway
