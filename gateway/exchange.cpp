#include "gateway/exchange.hpp"

#include "gateway/canonical_output.hpp"
#include "gateway/content_coding.hpp"
#include "gateway/header_rules.hpp"
#include "gateway/host_rule.hpp"
#include "gateway/json_scan.hpp"
#include "gateway/request_target.hpp"

#include <utility>

namespace verbatim::gateway {

net::awaitable<bool> Exchange::answer() {
  // 1. Name the question: who asks what of whom.
  if (auto refusal = find_misdirected()) co_return co_await refuse(std::move(*refusal));
  if (auto refusal = read_question()) co_return co_await refuse(std::move(*refusal));
  if (auto refusal = find_no_admission()) co_return co_await refuse(std::move(*refusal));
  upstream_ = services_.router.choose(head_, api_, facts_);
  if (upstream_ == nullptr) {
    const bool refused = co_await reject(404, "not_found", "nothing here serves this request");
    co_return refused;
  }

  // While the log is spared from rejections, what the local engine would refuse is refused before it has a leaf.
  if (upstream_->local() && services_.ledger.rejections_spent()) {
    auto refusal = co_await upstream_->refusal(question());
    if (refusal) co_return co_await refuse(std::move(*refusal));
  }

  // 2. Record it before anything leaves. In overlap mode the question may go on at once, but no
  //    byte of the answer comes back before the leaf is durable.
  begin_request_leaf();
  if (services_.config.mode == audit::DurabilityMode::overlap) {
    tee_.set_gate([this] { return request_recorded(); });
  } else {
    const bool go_on = co_await request_recorded();
    if (!go_on) co_return co_await refuse_unrecorded();
  }

  // 3. Has it been answered before, or is it being answered now? Then that answer is the canonical
  //    one.
  co_await consult_cache();

  // 4. Answer: from the record, or by asking. A client who has gone is not asked for any more.
  Outcome outcome;
  if (hit_) {
    outcome = co_await serve_hit();
  } else if (cancellation_.cancelled()) {
    outcome.status = EndStatus::client_disconnect;
    outcome.error_kind = "client_disconnect";
    outcome.error_message = "the client closed before its request was forwarded";
  } else {
    if (asks_for_websocket(head_) && body_.empty() && !rest_) websocket_ = make_tunnel();
    const Ask asked = question();
    outcome = co_await upstream_->ask(asked, tee_);
  }

  if (outcome.status == EndStatus::rejected) services_.ledger.note_rejection();

  // 5. In overlap mode the answer may have been held, or refused, by a log that failed.
  if (services_.config.mode == audit::DurabilityMode::overlap) {
    const bool go_on = co_await request_recorded();
    if (!go_on) co_return co_await refuse_unrecorded();
  }

  // 6. Judge it. A stream that is whole for HTTP but cut for its own protocol is a cut stream.
  tee_.read_whole(services_.config.limits.decoded_bytes_max);
  if (outcome.status == EndStatus::complete && tee_.cut_short()) {
    outcome.status = EndStatus::upstream_truncated;
    outcome.error_kind = "no_terminal_event";
    outcome.error_message = "the stream ended without its terminal event or a reason to finish";
  }

  if (outcome.status == EndStatus::client_disconnect && client_->interrupted()) {
    outcome.status = EndStatus::gateway_error;
    outcome.http_status = 503;
    outcome.error_kind = "shutting_down";
    outcome.error_message = "the gateway ended before the answer did";
  }

  // 7. Where no answer came, and nothing has been given out, the gateway says so itself. An answer
  //    that says "error" is passed on as it is, and recorded as what it is.
  bool whole = outcome.status == EndStatus::complete || outcome.status == EndStatus::cache_hit;
  if (whole) {
    name_upstream_error(outcome);
  } else if (outcome.status != EndStatus::client_disconnect && !tee_.begun()) {
    replaced_ = answer_error(tee_, outcome);
    whole = true;
  }

  observe(outcome);

  // 8. Record the end; then, and only then, let the last byte go.
  const bool keep = co_await conclude(std::move(outcome), whole);
  co_return keep;
}

net::awaitable<bool> Exchange::run() {
  std::exception_ptr thrown;
  try {
    const bool keep = co_await answer();
    co_return keep;
  } catch (...) {
    thrown = std::current_exception();
  }
  const bool keep = co_await conclude_failed(std::move(thrown));
  co_return keep;
}

net::awaitable<bool> Exchange::conclude_failed(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& bug) {
    // For the operator's eyes: what an exception says may quote what it choked on.
    services_.ledger.complain_of_bug(bug.what());
  } catch (...) {
    services_.ledger.complain_of_bug("something that is no std::exception");
  }
  cancellation_.on_cancel(nullptr);
  if (concluded_) {  // its record is closed: only the connection is left to end
    client_->abort();
    co_return false;
  }
  if (!request_index_ && !request_append_ && !log_failed_) begin_request_leaf();
  const bool go_on = co_await request_recorded();
  if (!go_on) co_return co_await refuse_unrecorded();
  Outcome outcome = ended(EndStatus::gateway_error, 500, "internal_error", "the gateway failed");
  const bool whole = !tee_.begun();
  if (whole) replaced_ = answer_error(tee_, outcome);
  const bool keep = co_await conclude(std::move(outcome), whole);
  co_return keep;
}

net::awaitable<bool> Exchange::reject(int http_status, std::string kind, std::string message) {
  Outcome outcome = ended(EndStatus::rejected, http_status, std::move(kind), std::move(message));
  std::exception_ptr thrown;
  try {
    const bool keep = co_await refuse(std::move(outcome));
    co_return keep;
  } catch (...) {
    thrown = std::current_exception();
  }
  const bool keep = co_await conclude_failed(std::move(thrown));
  co_return keep;
}

net::awaitable<bool> Exchange::refuse(Outcome outcome) {
  // Beyond a rate rejections share a leaf, so that nobody can fill the disk with them.
  if (services_.ledger.admit_rejection()) {
    begin_request_leaf();
    const bool go_on = co_await request_recorded();
    if (!go_on) co_return co_await refuse_unrecorded();
    answer_error(tee_, outcome);
    const bool keep = co_await conclude(std::move(outcome), /*whole=*/true);
    co_return keep;
  }
  services_.metrics.count_unrecorded_rejection();
  record_id_ = services_.ledger.rejections_id();  // in header and body
  Tee plain(*client_, services_.clock, tee_options());
  answer_error(plain, outcome);
  static_cast<void>(plain.take_body(true));
  const bool sent = co_await plain.finish();
  co_return sent&& plain.keep_alive();
}

net::awaitable<bool> Exchange::conclude(Outcome outcome, bool whole) {
  const std::int64_t total_us = services_.clock.steady_us() - arrived_us_;
  bool recorded = false;
  if (request_index_) {
    const bool may_be_canonical = may_become_canonical(outcome);
    std::string body = tee_.take_body(whole);
    services_.metrics.count_bytes(rest_ ? rest_->sample.bytes() : body_.size(),
                                  tee_.sample() != nullptr ? tee_.sample()->bytes() : body.size());
    audit::LeafDraft draft = response_leaf(outcome, std::move(body), may_be_canonical);
    auto end = co_await append(services_.recorder, services_.mailbox, std::move(draft));
    concluded_ = true;
    recorded = end.has_value();
    if (!end) services_.ledger.complain(end.error().message());
    if (!end && fail_open()) services_.ledger.count_gap(end.error().message());
  } else {
    static_cast<void>(tee_.take_body(whole));  // counted as a gap when its request was
  }
  services_.metrics.count_exchange(api_, outcome.status, cache_status_, total_us);
  complain_of_upstream(outcome);
  leading_.reset();  // who waited for this answer can find it now

  if (!recorded && !fail_open()) {
    if (!tee_.begun() && whole) co_return co_await refuse_unrecorded();
    client_->abort();
    co_return false;
  }
  if (!whole) {
    // A cut answer never looks like a whole one: no final chunk, fewer bytes than promised, or a
    // reset.
    if (tee_.needs_reset()) client_->abort();
    co_return false;
  }
  const bool sent = co_await tee_.finish();
  if (websocket_ && websocket_->opened()) {
    co_await websocket_->finish();
    co_return false;
  }
  const bool body_read = !rest_ || rest_->done();
  co_return sent&& body_read&& tee_.keep_alive() && !services_.draining;
}

/// Who is on call sees which upstream fails, and how; what it said is in the record.
void Exchange::complain_of_upstream(const Outcome& outcome) const {
  const bool failed = outcome.status == EndStatus::upstream_error ||
                      outcome.status == EndStatus::upstream_truncated ||
                      outcome.status == EndStatus::timeout;
  // A request that it refuses is no failure of its own.
  const bool refused = outcome.error_kind == "http_status" && tee_.status() < 500;
  if (!failed || refused || upstream_ == nullptr) return;
  services_.ledger.complain_of_upstream("upstream " + std::string(upstream_->name()) +
                                            " failed: " + std::string(status_name(outcome.status)) +
                                            ", " + leaf_text(outcome.error_kind, 64),
                                        record_id_);
}

net::awaitable<bool> Exchange::refuse_unrecorded() {
  const Outcome outcome =
      ended(EndStatus::gateway_error, 503, "audit_log_unavailable",
            "the audit log cannot be written, and nothing is answered unrecorded");
  services_.metrics.count_exchange(api_, outcome.status, cache_status_,
                                   services_.clock.steady_us() - arrived_us_);
  Tee plain(*client_, services_.clock, tee_options());
  answer_error(plain, outcome);
  static_cast<void>(plain.take_body(true));
  const bool sent = co_await plain.finish();
  co_return sent&& plain.keep_alive();
}

// ---- helpers: they compute, and decide nothing

Exchange::Exchange(Services& services, std::shared_ptr<ClientConnection> client, RequestHead head,
                   std::string body, bool keep_alive, std::int64_t arrived_us, BodySource* rest)
    : services_(services),
      client_(std::move(client)),
      head_(std::move(head)),
      body_(std::move(body)),
      keep_alive_(keep_alive && !services.draining),
      arrived_us_(arrived_us),
      id_(services.ids.next()),
      record_id_(id_.str()),
      api_(api_of(head_)),
      dialect_(dialect_of(head_)),
      tee_(*client_, services.clock, tee_options()) {
  if (rest != nullptr) {
    rest_ = std::make_unique<SampledSource>(*rest, services.config.limits.stream_record_bytes);
  }
  services_.metrics.set_in_flight(+1);
  client_->on_gone([this] { cancellation_.cancel(); });
  client_->on_half_closed([this] { client_sends_no_more(); });
  client_->read_ahead();
  if (client_->gone() || client_->interrupted()) cancellation_.cancel();
  if (client_->half_closed()) client_sends_no_more();
}

Exchange::~Exchange() {
  client_->on_gone(nullptr);
  client_->on_half_closed(nullptr);
  services_.metrics.set_in_flight(-1);
}

/// What no upstream is asked.
std::optional<Outcome> Exchange::find_misdirected() const {
  const auto refused = [](int status, std::string kind, std::string message) {
    return ended(EndStatus::rejected, status, std::move(kind), std::move(message));
  };
  // A tunnel would pass unread; and an echo of the request would show the client the provider's credential.
  if (head_.method == "CONNECT" || head_.method == "TRACE") {
    return refused(501, "unsupported_method", head_.method + " is not served here");
  }
  // Servers that heed it would do another thing than the one that is judged, recorded and limited here.
  for (const char* name : {"x-http-method-override", "x-http-method", "x-method-override"}) {
    for (const Field& field : head_.fields.all()) {
      if (same_word(field.name, name) && !same_word(field.value, head_.method))
        return refused(400, "method_override",
                       std::string(name) +
                           " names another method than the request has: send the "
                           "request by the method that is meant");
    }
  }
  // Forwarded as it came, an absolute target would let the client choose the server.
  if (!is_origin_form(head_.target)) {
    return refused(400, "bad_target",
                   "the request target must be a path that begins with '/', or an http or https "
                   "URL without user name and fragment");
  }
  const GatewayConfig& config = services_.config;
  if (!config.hosts.empty() && !answers_to(head_.fields.get("host"), config.listen, config.hosts)) {
    return refused(421, "wrong_host",
                   "the gateway does not answer to the name in Host (gateway.hosts)");
  }
  return std::nullopt;
}

/// What the request says, its content coding undone. A refusal if it unpacks to more than is read here.
std::optional<Outcome> Exchange::read_question() {
  const std::string_view coding = head_.fields.get("content-encoding");
  coded_ = !coding.empty() && !same_word(coding, "identity") && !body_.empty() &&
           !may_stream_body(api_, head_.fields);
  // Nothing is unpacked for strangers.
  const bool known = services_.keys.empty() || services_.keys.knows(credential_of(head_));
  if (coded_ && known) {
    auto decoded = decode_content(coding, body_, services_.config.limits.decoded_bytes_max);
    if (!decoded && decoded.error().code == Errc::out_of_range) {
      unread_ = "too_large";
      return ended(EndStatus::rejected, 413, "request_body_too_large_after_decoding",
                   "the request's body unpacks to more than decoded_bytes_max");
    }
    if (decoded) {
      decoded_ = std::move(*decoded);
    } else {
      unread_ = decoded.error().code == Errc::unsupported ? "unsupported" : "broken";
    }
  } else if (coded_) {
    unread_ = "unknown_key";
  }
  facts_ = read_request(api_, text());
  // Of a WebSocket the messages are not read: its target names the model.
  if (asks_for_websocket(head_)) facts_.model = query_parameter(head_.target, "model");
  read_target(api_, head_.target, facts_);
  return std::nullopt;
}

/// Where the gateway has keys of its own, a request needs one that allows it.
std::optional<Outcome> Exchange::find_no_admission() {
  if (services_.keys.empty()) return std::nullopt;
  const bool needs_model = api_ != Api::openai_models;
  // Where a server may read another model in the path, none is known.
  const std::string model = names_another_model(head_, facts_.model) ? "" : facts_.model;
  auto verdict = services_.keys.admit(credential_of(head_), needs_model, model);
  if (auto* admission = std::get_if<KeyRing::Admission>(&verdict)) {
    admission_.emplace(std::move(*admission));
    return std::nullopt;
  }
  const auto& refusal = std::get<KeyRing::Refusal>(verdict);
  Outcome outcome = ended(EndStatus::rejected, refusal.http_status, refusal.kind, refusal.message);
  outcome.retry_after_s = refusal.retry_after_s;
  return outcome;
}

Ask Exchange::question() {
  Ask ask{head_, body_, text(), facts_, api_, record_id_, cancellation_};
  ask.keyed = admission_.has_value();
  ask.rest = rest_.get();
  ask.tunnel = websocket_.get();
  return ask;
}

/// Who ends the sending side before the answer begins may wait for it still; who does so later has left.
void Exchange::client_sends_no_more() {
  if (websocket_ && websocket_->opened()) return;  // its tunnel sees to it
  if (tee_.begun()) {
    client_->give_up();
  } else {
    client_->probe(kStatusLineOpening);
  }
}

bool Exchange::fail_open() const {
  return services_.config.on_log_failure == OnLogFailure::fail_open;
}

Tee::Options Exchange::tee_options() const {
  Tee::Options options;
  options.record_id = record_id_;
  options.head_request = head_.method == "HEAD";
  options.client_version = head_.version;
  options.keep_alive = keep_alive_;
  options.api = api_;
  options.arrived_us = arrived_us_;
  options.body_bytes_max = services_.config.limits.response_bytes_max;
  options.sample_above = services_.config.limits.stream_above_bytes;
  options.sample_bytes_max = services_.config.limits.stream_record_bytes;
  options.write_within = services_.config.timeouts.client_write;
  options.deadlines = &services_.deadlines;
  options.comment_after = services_.config.timeouts.keep_alive_comment;
  return options;
}

const std::string& Exchange::tenant() const {
  return admission_ ? admission_->key().tenant : services_.config.tenant;
}

void Exchange::begin_request_leaf() {
  const std::string credential = credential_of(head_);
  if (admission_) {
    subject_ = services_.recorder.subject_handle("gateway-key:" + admission_->key().hash.id);
  } else {
    subject_ = services_.recorder.subject_handle(credential.empty() ? "anonymous" : credential);
  }
  std::string upstream(upstream_ != nullptr && upstream_->local() ? "local" : "");
  if (upstream_ != nullptr && !upstream_->local()) upstream = upstream_->name();
  capture_ = Capture(services_.config.capture, services_.config.redact, head_, upstream);
  audit::LeafDraft leaf = request_leaf();
  const auto* retention = retention_for(services_.config.retention, head_, upstream);
  if (retention != nullptr) leaf.fields["retention"] = audit::retention_json(*retention);
  request_append_.emplace(services_.recorder, services_.mailbox, std::move(leaf));
}

/// True once the request's leaf is durable, or if the exchange may go on without it.
net::awaitable<bool> Exchange::request_recorded() {
  if (request_append_) {
    auto appended = co_await request_append_->wait();
    request_append_.reset();
    if (appended) {
      request_index_ = appended->index;
    } else {
      log_failed_ = true;
      services_.ledger.complain(appended.error().message());
      if (fail_open()) services_.ledger.count_gap(appended.error().message());
    }
  }
  co_return !log_failed_ || fail_open();
}

/// Finds the canonical answer, or becomes the one who makes it, or waits for the one who does.
net::awaitable<void> Exchange::consult_cache() {
  if (!is_cacheable(services_.config.cache, head_, api_, facts_)) co_return;
  // Answers are served from the record: what is not in it whole cannot be served, and is kept nowhere else.
  if (!capture_.repeatable()) co_return;
  // Callers of a remote server share answers only where the operator says so: the server's own
  // check of a credential must not be passed by.
  const bool shared = upstream_->local() || services_.config.cache.share_remote;
  const auto preimage = cache_preimage(head_, api_, text(), upstream_->identity(facts_.model),
                                       shared ? "" : caller_scope(head_));
  if (!preimage) co_return;
  auto key = services_.recorder.cache_key(tenant(), as_bytes(*preimage));
  if (!key) co_return;
  cache_key_ = *key;
  cache_status_ = "miss";
  tee_.set_cache_status(cache_status_);
  if (look_up()) {
    if (!services_.observations.take_turn(services_.config.cache.observe_percent)) co_return;
    observed_ = std::exchange(hit_, nullptr);
    cache_key_.reset();  // what comes is compared, and takes nobody's place
    cache_status_ = "bypass";
    tee_.set_cache_status(cache_status_);
    co_return;
  }
  leading_ = services_.flights.lead(*cache_key_);
  if (leading_) co_return;
  co_await services_.flights.wait(*cache_key_, cancellation_);
  static_cast<void>(look_up());  // if the leader failed, this one asks for itself
}

std::unique_ptr<WebSocketTunnel> Exchange::make_tunnel() const {
  WebSocketTunnel::Options options;
  options.record_bytes = services_.config.limits.websocket_record_bytes;
  options.idle = services_.config.timeouts.websocket_idle;
  options.arrived_us = arrived_us_;
  return std::make_unique<WebSocketTunnel>(client_, services_.deadlines, services_.clock,
                                           tee_.fields(), options);
}

bool Exchange::look_up() {
  hit_ = services_.recorder.canonical_answer(*cache_key_);
  return hit_ != nullptr;
}

net::awaitable<Outcome> Exchange::serve_hit() {
  const AnswerShape shape{facts_.stream, facts_.include_usage, head_.fields.get("accept-encoding")};
  auto answer =
      answer_in_shape(api_, hit_->stored, shape, services_.config.limits.decoded_bytes_max);
  Outcome outcome;
  if (!answer) {
    // What is stored cannot be given in this shape: as good as no hit.
    hit_.reset();
    const Ask asked = question();
    outcome = co_await upstream_->ask(asked, tee_);
    co_return outcome;
  }
  outcome.status = EndStatus::cache_hit;
  cache_status_ = "hit";
  tee_.set_cache_status(cache_status_);
  std::optional<std::uint64_t> length;
  if (!facts_.stream) length = answer->body.size();
  tee_.on_head(std::move(answer->head), length, false);
  tee_.on_body(answer->body);
  const bool there = co_await tee_.flush(/*last=*/true);
  if (!there) {
    outcome.status = EndStatus::client_disconnect;
    outcome.error_kind = "client_disconnect";
    outcome.error_message = "the client closed";
  }
  co_return outcome;
}

/// What the upstream answered may be an error: in its status, in its body, or in an event.
void Exchange::name_upstream_error(Outcome& outcome) const {
  const bool status_says_so = tee_.status() >= 400;
  if (outcome.status != EndStatus::complete || upstream_->local()) return;
  if (!status_says_so && !tee_.facts().error_event()) return;
  outcome.status = EndStatus::upstream_error;
  outcome.error_kind = status_says_so ? "http_status" : "error_event";
  outcome.error_message = status_says_so ? "the upstream answered " + std::to_string(tee_.status())
                                         : "the upstream reported an error inside its answer";
}

/// Returns what had come of the answer that this one replaces.
Exchange::Replaced Exchange::answer_error(Tee& tee, const Outcome& outcome) const {
  Replaced had{std::string(tee.fields().get("content-type")),
               std::string(tee.fields().get("content-encoding")), ""};
  had.body = tee.reset();
  const std::string body = error_body(dialect_, outcome.http_status, outcome.error_message,
                                      outcome.error_kind, record_id_);
  ResponseHead head;
  head.status = outcome.http_status;
  head.reason = reason_phrase(outcome.http_status);
  head.fields.add("content-type", "application/json");
  if (outcome.retry_after_s > 0) {
    head.fields.add("retry-after", std::to_string(outcome.retry_after_s));
  } else if (outcome.http_status == 503) {
    head.fields.add("retry-after", "2");
  }
  tee.on_head(std::move(head), body.size(), false);
  tee.on_body(body);
  return had;
}

/// Compares an answer with the canonical one that would have been served.
void Exchange::observe(const Outcome& outcome) {
  if (!observed_ || outcome.status != EndStatus::complete) return;
  const std::size_t bytes_max = services_.config.limits.decoded_bytes_max;
  const NormalForm& form = services_.config.cache.compare_as;
  const auto known = answer_in_shape(api_, observed_->stored, AnswerShape{}, bytes_max);
  const auto fresh = decode_content(tee_.fields().get("content-encoding"), tee_.body(), bytes_max);
  std::optional<ComparableAnswer> expected, got;
  if (known) expected = comparable_answer(api_, false, known->body, form);
  if (fresh) got = comparable_answer(api_, tee_.is_stream(), *fresh, form);
  observation_ = compare_answers(expected, got, form);
  services_.observations.count(facts_.model, *observation_);
}

bool Exchange::may_become_canonical(const Outcome& outcome) const {
  if (!cache_key_ || outcome.status != EndStatus::complete || tee_.status() != 200) return false;
  if (tee_.facts().error_event() || tee_.body().size() > services_.config.cache.body_bytes_max) {
    return false;
  }
  return tee_.is_stream() ? tee_.facts().terminal() : tee_.facts().finished();
}

}  // namespace verbatim::gateway
