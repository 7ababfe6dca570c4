#include "gateway/endpoint_client.hpp"

#include "gateway/content_coding.hpp"
#include "gateway/deadline.hpp"
#include "gateway/remote_upstream.hpp"
#include "gateway/whole_answer.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>

#include <set>
#include <utility>

namespace verbatim::gateway {

namespace {

constexpr std::chrono::milliseconds kNeighbourPause{
    100};  // after a failure: no storm of connections

/// One run of ask_endpoint(): all on one thread, all gone when it returns.
class Asking {
 public:
  Asking(const EndpointOptions& options, const std::vector<EndpointQuestion>& questions,
         Neighbours& neighbours, const Clock& clock,
         const std::function<bool(std::size_t, EndpointAnswer)>& on_answer)
      : options_(options),
        questions_(questions),
        neighbours_(neighbours),
        clock_(clock),
        on_answer_(on_answer),
        deadlines_(io_, clock) {}

  Result<void> run(std::size_t concurrency) {
    Limits limits;
    limits.idle_upstream_max = concurrency + neighbours_.count;
    limits.response_bytes_max = options_.response_bytes_max;
    Timeouts timeouts;
    timeouts.connect = options_.connect;
    timeouts.first_byte = timeouts.idle = options_.total;
    UpstreamConfig config;
    config.name = "endpoint";
    config.url = options_.url;
    config.ca_file = options_.ca_file;
    auto upstream = make_remote_upstream(io_, deadlines_, clock_, config, limits, timeouts);
    if (!upstream) return upstream.error();
    upstream_ = std::move(*upstream);
    deadlines_.start();
    // Neighbours first: they are on their way when the first question goes out.
    for (std::size_t i = 0; i < neighbours_.count; ++i) {
      net::co_spawn(io_, keep_asking(), net::detached);
    }
    for (std::size_t i = 0; i < concurrency; ++i) {
      ++workers_;
      net::co_spawn(io_, work(), net::detached);
    }
    io_.run();
    return {};
  }

 private:
  net::awaitable<void> work() {
    while (next_ < questions_.size() && !stopped_) {
      const std::size_t index = next_++;
      EndpointAnswer answer = co_await ask(questions_[index]);
      if (!on_answer_(index, std::move(answer))) stopped_ = true;
    }
    if (--workers_ == 0) finish();
  }

  net::awaitable<void> keep_asking() {
    while (!finished_) {
      const EndpointQuestion question = neighbours_.next();
      const EndpointAnswer answer = co_await ask(question);
      if (finished_) co_return;
      const bool well = answer.error_kind.empty() && answer.status / 100 == 2;
      ++(well ? neighbours_.answered : neighbours_.failed);
      if (well) continue;
      net::steady_timer pause(io_, kNeighbourPause);
      co_await pause.async_wait(kTuple);
    }
  }

  /// Ends what the neighbours still wait for, so that run() returns.
  void finish() {
    finished_ = true;
    const std::set<Cancellation*> running = running_;
    for (Cancellation* each : running) each->cancel();
    deadlines_.stop();
    upstream_->drain();
  }

  net::awaitable<EndpointAnswer> ask(const EndpointQuestion& question) {
    const std::int64_t start_us = clock_.steady_us();
    RequestHead head{"POST", question.target, 11, question.fields};
    const RequestFacts facts;
    Cancellation cancellation;
    running_.insert(&cancellation);
    bool late = false;
    Deadlines::Entry deadline(deadlines_, [&] {
      late = true;
      cancellation.cancel();
    });
    deadline.arm(options_.total);
    WholeAnswer sink(options_.response_bytes_max);
    const Ask asked{head, question.body, question.body, facts, Api::generic, "", cancellation};
    Outcome outcome = co_await upstream_->ask(asked, sink);
    deadline.disarm();
    running_.erase(&cancellation);

    EndpointAnswer answer;
    answer.total_us = clock_.steady_us() - start_us;
    answer.status = sink.head_.status;
    answer.fields = std::move(sink.head_.fields);
    answer.body = std::move(sink.body_);
    if (late || outcome.status == EndStatus::timeout) {
      answer.error_kind = outcome.error_kind == "connect_timeout" ? outcome.error_kind : "timeout";
      answer.error_message =
          "no whole answer within " + std::to_string(options_.total.count() / 1000) + " s";
    } else if (outcome.status != EndStatus::complete) {
      answer.error_kind = std::move(outcome.error_kind);
      answer.error_message = std::move(outcome.error_message);
    } else {
      undo_coding(answer);
    }
    co_return answer;
  }

  void undo_coding(EndpointAnswer& answer) const {
    const std::string_view coding = answer.fields.get("content-encoding");
    if (coding.empty()) return;
    auto decoded = decode_content(coding, answer.body, options_.response_bytes_max);
    if (!decoded) {
      answer.error_kind = "coding";
      answer.error_message = decoded.error().message();
      return;
    }
    answer.body = std::move(*decoded);
  }

  const EndpointOptions& options_;
  const std::vector<EndpointQuestion>& questions_;
  Neighbours& neighbours_;
  const Clock& clock_;
  const std::function<bool(std::size_t, EndpointAnswer)>& on_answer_;
  net::io_context io_{1};
  Deadlines deadlines_;
  std::shared_ptr<Upstream> upstream_;
  std::set<Cancellation*> running_;
  std::size_t next_ = 0, workers_ = 0;
  bool stopped_ = false, finished_ = false;
};

}  // namespace

Result<void> ask_endpoint(
    const EndpointOptions& options, const std::vector<EndpointQuestion>& questions,
    std::size_t concurrency, Neighbours& neighbours, const Clock& clock,
    const std::function<bool(std::size_t index, EndpointAnswer answer)>& on_answer) {
  VERBATIM_CHECK(concurrency > 0);
  VERBATIM_CHECK(neighbours.count == 0 || neighbours.next != nullptr);
  return Asking(options, questions, neighbours, clock, on_answer).run(concurrency);
}

}  // namespace verbatim::gateway
