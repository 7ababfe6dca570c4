#include "gateway/local_upstream.hpp"

#include "gateway/header_rules.hpp"
#include "gateway/local_answer.hpp"
#include "gateway/local_request.hpp"
#include "gateway/router.hpp"

#include <boost/asio/thread_pool.hpp>

#include <deque>
#include <exception>
#include <memory>
#include <utility>

namespace verbatim::gateway {

namespace {

using local_engine::Engine;
using local_engine::Generation;
using local_engine::GenerationResult;
using local_engine::TokenInfo;

/// Beyond 2^53 a JavaScript client could not send the seed back.
std::uint64_t make_seed() {
  std::array<std::uint8_t, 8> bytes{};
  fill_random(bytes);
  std::uint64_t seed = 0;
  for (const std::uint8_t byte : bytes) seed = seed << 8 | byte;
  return seed >> 11;
}

/// What the engine's thread tells the gateway's.
struct Happening {
  std::size_t choice = 0;
  std::optional<TokenInfo> token;
  std::optional<Result<GenerationResult>> result;
};

/// The generations of one exchange. Shared with the engine's callbacks, which may come after it has
/// ended.
class Run : public std::enable_shared_from_this<Run> {
 public:
  explicit Run(std::shared_ptr<Mailbox> mailbox) : mailbox_(std::move(mailbox)) {}

  void start(Engine& engine, const LocalQuestion& question) {
    for (std::size_t i = 0; i < question.choices.size(); ++i) {
      const auto tell = [self = shared_from_this()](Happening happening) {
        self->mailbox_->post([self, happening = std::move(happening)]() mutable {
          self->happenings_.push_back(std::move(happening));
          self->signal_.wake();
        });
      };
      // Tokens one by one are only of use to a stream.
      std::function<void(const TokenInfo&)> on_token = [](const TokenInfo&) {};
      if (question.stream) {
        on_token = [tell, i](const TokenInfo& token) { tell({i, token, std::nullopt}); };
      }
      generations_.push_back(engine.generate(question.choices[i], std::move(on_token),
                                             [tell, i](Result<GenerationResult> result) {
                                               tell({i, std::nullopt, std::move(result)});
                                             }));
    }
  }
  void cancel() {
    for (const auto& generation : generations_) generation->cancel();
  }
  /// The generations know this object by their callbacks: without this the two would keep each other for ever.
  void let_go() {
    cancel();  // of no effect on those that have ended
    generations_.clear();
  }
  [[nodiscard]] net::awaitable<std::deque<Happening>> next() {
    const auto self = shared_from_this();
    while (happenings_.empty()) co_await signal_.wait();
    co_return std::exchange(happenings_, {});
  }

 private:
  std::shared_ptr<Mailbox> mailbox_;
  std::vector<std::shared_ptr<Generation>> generations_;
  std::deque<Happening> happenings_;
  Signal signal_;
};

Outcome refused(int http_status, std::string kind, std::string message) {
  return ended(EndStatus::rejected, http_status, std::move(kind), std::move(message));
}

Outcome refused(const Error& error) {
  return refused(400, error.code == Errc::unsupported ? "unsupported_parameter" : "invalid_request",
                 error.message());
}

/// The engine could not do it.
Outcome failed(const Error& error) {
  if (error.code == Errc::invalid_input) return refused(400, "invalid_request", error.message());
  const bool busy = error.code == Errc::unavailable;
  return ended(EndStatus::upstream_error, busy ? 503 : 500, busy ? "engine_busy" : "engine_failed",
               error.message());
}

void give_head(AnswerSink& sink, std::string_view type, std::optional<std::uint64_t> length,
               std::optional<std::uint64_t> seed) {
  ResponseHead head;
  head.status = 200;
  head.reason = "OK";
  head.fields.add("content-type", type);
  if (seed) head.fields.add("x-verbatim-seed", std::to_string(*seed));
  sink.on_head(std::move(head), length, false);
}

/// Reads requests: short ones at once, long ones on threads of their own, because to parse, render and tokenise a prompt
/// of megabytes takes seconds.
class RequestReader {
 public:
  explicit RequestReader(std::shared_ptr<Mailbox> mailbox) : mailbox_(std::move(mailbox)) {}
  ~RequestReader() { threads_.join(); }
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  /// As read_local_request(). Ends early, with `cancelled`, when the client leaves.
  [[nodiscard]] net::awaitable<Result<LocalQuestion>> read(const Ask& ask,
                                                           std::shared_ptr<Engine> engine,
                                                           std::int64_t now_us) {
    if (ask.text.size() <= kShortBytes) {
      co_return read_local_request(ask.api, ask.text, *engine, now_us, make_seed());
    }
    // The thread's own: the exchange may end before it.
    const auto reading = std::make_shared<Reading>();
    reading->body = ask.text;
    net::post(threads_, [reading, mailbox = mailbox_, engine, api = ask.api, now_us] {
      try {
        reading->result.emplace(
            read_local_request(api, reading->body, *engine, now_us, make_seed()));
      } catch (...) {
        reading->thrown = std::current_exception();
      }
      mailbox->post([reading] {
        reading->done = true;
        reading->signal.wake();
      });
    });
    ask.cancellation.on_cancel([reading] { reading->signal.wake(); });
    while (!reading->done && !ask.cancellation.cancelled()) co_await reading->signal.wait();
    ask.cancellation.on_cancel(nullptr);
    if (!reading->done) co_return Error{Errc::cancelled, "the client closed", "", ""};
    if (reading->thrown) std::rethrow_exception(reading->thrown);
    co_return std::move(*reading->result);
  }

 private:
  static constexpr std::size_t kShortBytes = 8192;
  struct Reading {
    std::string body;
    std::optional<Result<LocalQuestion>> result;
    std::exception_ptr thrown;
    bool done = false;  // the gateway's thread only
    Signal signal;
  };

  std::shared_ptr<Mailbox> mailbox_;
  net::thread_pool threads_{2};
};

class LocalUpstream final : public Upstream {
 public:
  LocalUpstream(std::shared_ptr<Mailbox> mailbox, const Clock& clock,
                std::vector<LocalModel> models)
      : mailbox_(std::move(mailbox)),
        clock_(clock),
        models_(std::move(models)),
        reader_(mailbox_) {}

  [[nodiscard]] std::string_view name() const override { return "local"; }
  [[nodiscard]] bool local() const override { return true; }

  [[nodiscard]] Json describe_model(std::string_view requested) const override {
    Json out = Json::object();
    if (!requested.empty()) out["requested"] = leaf_text(requested, 256);
    if (const LocalModel* model = find(requested); model != nullptr) {
      out["level"] = "measured";
      out["weights_sha256"] = model->engine->fingerprint().weights_sha256.hex();
      out["manifest_sha256"] = model->engine->fingerprint().manifest_sha256.hex();
    }
    return out;
  }

  [[nodiscard]] std::string identity(std::string_view requested) const override {
    const LocalModel* model = find(requested);
    if (model == nullptr) return "";
    return "local:" + model->engine->fingerprint().weights_sha256.hex() + ":" +
           model->engine->profile();
  }

  [[nodiscard]] net::awaitable<Outcome> ask(const Ask& question, AnswerSink& sink) override {
    if (question.api == Api::openai_models) {
      Outcome outcome = co_await list_models(question, sink);
      co_return outcome;
    }
    if (auto refusal = refusal_at_sight(question)) co_return std::move(*refusal);
    const LocalModel& model = *find(question.facts.model);
    auto read = co_await reader_.read(question, model.engine, clock_.now_us());
    if (question.cancellation.cancelled()) co_return client_left();
    if (!read) co_return refused(read.error());
    for (local_engine::GenerationRequest& choice : read->choices) {
      if (model.layer_digest_bytes > 0) choice.layer_detail = local_engine::LayerDetail::residual;
      choice.top_activations = model.activation_fingerprints;
    }
    Outcome outcome = co_await generate(question, *read, model, sink);
    co_return outcome;
  }

  [[nodiscard]] net::awaitable<std::optional<Outcome>> refusal(const Ask& question) override {
    if (question.api == Api::openai_models) {
      const std::string wanted = model_of_path(question.head.target);
      if (wanted.empty() || find(wanted) != nullptr) co_return std::nullopt;
      co_return no_such_model(wanted);
    }
    if (auto refusal = refusal_at_sight(question)) co_return refusal;
    const LocalModel& model = *find(question.facts.model);
    const auto read = co_await reader_.read(question, model.engine, clock_.now_us());
    if (read || question.cancellation.cancelled()) co_return std::nullopt;
    co_return refused(read.error());
  }

 private:
  [[nodiscard]] const LocalModel* find(std::string_view name) const {
    for (const LocalModel& model : models_) {
      if (model.name == name) return &model;
    }
    return nullptr;
  }

  /// What is refused without reading more than the facts; none if find() gives the model.
  [[nodiscard]] std::optional<Outcome> refusal_at_sight(const Ask& question) const {
    if (!generates_text(question.api)) {
      return refused(
          404, "not_found",
          "no model here serves " + leaf_text(redacted_target(question.head.target), 128));
    }
    if (!question.facts.is_json) {
      return refused(400, "invalid_request", "the body is not a valid JSON object");
    }
    if (question.facts.model.empty()) return refused(400, "invalid_request", "'model' is missing");
    if (find(question.facts.model) == nullptr) return no_such_model(question.facts.model);
    return std::nullopt;
  }

  [[nodiscard]] static Outcome no_such_model(std::string_view name) {
    return refused(404, "model_not_found",
                   "the model '" + leaf_text(name, 128) + "' does not exist here");
  }

  [[nodiscard]] net::awaitable<Outcome> list_models(const Ask& question, AnswerSink& sink) {
    const std::string wanted = model_of_path(question.head.target);
    const bool anthropic = dialect_of(question.head) == Dialect::anthropic;
    std::string body;
    if (wanted.empty()) {
      std::vector<std::string> names;
      for (const LocalModel& model : models_) names.push_back(model.name);
      body = models_body(anthropic, names);
    } else {
      if (find(wanted) == nullptr) co_return no_such_model(wanted);
      body = model_body(anthropic, wanted);
    }
    give_head(sink, "application/json", body.size(), std::nullopt);
    sink.on_body(body);
    const bool there = co_await sink.flush(/*last=*/true);
    co_return there ? Outcome{} : client_left();
  }

  [[nodiscard]] net::awaitable<Outcome> generate(const Ask& ask, const LocalQuestion& question,
                                                 const LocalModel& model, AnswerSink& sink) {
    Engine& engine = *model.engine;
    const LocalAnswer answer(ask.api, question, engine, ask.record_id, clock_.now_us(),
                             local_fingerprint(engine));
    const auto run = std::make_shared<Run>(mailbox_);
    // However this ends, also by the coroutine's destruction.
    const std::unique_ptr<Run, void (*)(Run*)> guard(run.get(),
                                                     [](Run* ended) { ended->let_go(); });
    std::vector<LocalChoice> choices(question.choices.size());
    run->start(engine, question);
    ask.cancellation.on_cancel([run] { run->cancel(); });

    std::optional<Error> error;
    bool there = true;
    for (std::size_t open = choices.size(); open > 0;) {
      auto happenings = co_await run->next();
      std::string text;
      for (Happening& happening : happenings) {
        LocalChoice& choice = choices[happening.choice];
        if (happening.token) {
          text += answer.piece(happening.choice, happening.token->text, &*happening.token);
          choice.given += happening.token->text.size();
        } else {
          --open;
          choice.done = true;
          if (!*happening.result) {
            if (!error) error = happening.result->error();
            run->cancel();  // the others' answers are of no use without it
            continue;
          }
          choice.result = std::move(**happening.result);
          if (question.stream && !error) text += answer.finish(happening.choice, choice);
        }
      }
      if (ask.cancellation.cancelled()) there = false;
      if (!question.stream || error || !there) continue;
      if (!sink.head_given()) {
        give_head(sink, "text/event-stream; charset=utf-8", std::nullopt, question.seed);
        sink.on_body(answer.begin());
      }
      sink.on_body(text);
      if (open == 0) break;  // the end goes out together with the terminal event
      there = co_await sink.flush(/*last=*/false);
      if (!there) run->cancel();
    }
    ask.cancellation.on_cancel(nullptr);

    Outcome outcome = error ? failed(*error) : there ? Outcome{} : client_left();
    if (!error && there) {
      if (question.stream) {
        sink.on_body(answer.end(choices));
      } else {
        const std::string whole = answer.whole(choices);
        give_head(sink, "application/json", whole.size(), question.seed);
        sink.on_body(whole);
      }
      there = co_await sink.flush(/*last=*/true);
      if (!there) outcome = client_left();
    }
    if (!error) {
      outcome.engine = describe_engine(engine, choices);
      outcome.tokens = tokens_content(question, choices);
      outcome.layers = layers_content(choices, model.layer_digest_bytes);
      outcome.fingerprint = fingerprint_content(choices);
      if (model.activation_fingerprints)
        (*outcome.engine)["fingerprint"] = {{"hidden", engine.hidden_size()}};
      outcome.usage = describe_usage(question, choices);
    }
    co_return outcome;
  }

  std::shared_ptr<Mailbox> mailbox_;
  const Clock& clock_;
  std::vector<LocalModel> models_;
  RequestReader reader_;
};

}  // namespace

std::unique_ptr<Upstream> make_local_upstream(std::shared_ptr<Mailbox> mailbox, const Clock& clock,
                                              std::vector<LocalModel> models) {
  return std::make_unique<LocalUpstream>(std::move(mailbox), clock, std::move(models));
}

}  // namespace verbatim::gateway
