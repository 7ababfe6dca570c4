#include "gateway/server.hpp"

#include "gateway/admin.hpp"
#include "gateway/environment.hpp"
#include "gateway/listener.hpp"
#include "gateway/local_upstream.hpp"
#include "gateway/remote_upstream.hpp"
#include "gateway/services.hpp"
#include "gateway/session.hpp"
#include "gateway/tls.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/steady_timer.hpp>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <future>
#include <set>
#include <utility>

namespace verbatim::gateway {

namespace {

/// How long what is cut off may take to be recorded and told.
constexpr std::chrono::milliseconds kCutOffWithin{2'000};

/// For the few leaves before the gateway's loop runs.
Result<audit::Appended> append_and_wait(Recorder& recorder, audit::LeafDraft draft) {
  auto promise = std::make_shared<std::promise<Result<audit::Appended>>>();
  auto future = promise->get_future();
  recorder.append(std::move(draft), [promise](Result<audit::Appended> result) {
    promise->set_value(std::move(result));
  });
  return future.get();
}

audit::LeafDraft draft_of(std::string type, Json fields) {
  audit::LeafDraft draft;
  draft.type = std::move(type);
  draft.fields = std::move(fields);
  return draft;
}

/// To stderr, one line an event, UTC. Never a body, a header or a credential.
std::shared_ptr<spdlog::logger> make_logger() {
  auto logger = std::make_shared<spdlog::logger>("gateway",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::make_unique<spdlog::pattern_formatter>(
      "%Y-%m-%dT%H:%M:%S.%fZ %l %n: %v", spdlog::pattern_time_type::utc));
  return logger;
}

Json describe_local_model(const LocalModel& model) {
  const local_engine::Fingerprint& print = model.engine->fingerprint();
  Json facts = {{"name", model.name},
                {"level", "measured"},
                {"weights_sha256", print.weights_sha256.hex()},
                {"manifest_sha256", print.manifest_sha256.hex()},
                {"tensors_sha256", print.tensors_sha256.hex()},
                {"config_sha256", print.config_sha256.hex()},
                {"architecture", print.architecture},
                {"parameters", print.parameters},
                {"dtype", print.dtype},
                {"path", std::filesystem::path(model.path).filename().string()}};
  const auto add = [&](const char* name, const Digest& digest) {
    if (digest != Digest{}) facts[name] = digest.hex();
  };
  add("tokenizer_sha256", print.tokenizer_sha256);
  add("chat_template_sha256", print.chat_template_sha256);
  return facts;
}

}  // namespace

class Server::Impl {
 public:
  Impl(GatewayConfig config, const Clock& clock, Recorder& recorder)
      : config_(std::move(config)),
        clock_(clock),
        recorder_(recorder),
        mailbox_(std::make_shared<Mailbox>(io_)),
        deadlines_(io_, clock),
        ids_(clock),
        flights_(mailbox_),
        ledger_(std::make_shared<Ledger>(recorder, mailbox_, ids_, clock,
                                         config_.limits.rejections_per_s, out_)),
        keys_(clock),
        upstream_facts_(io_, recorder, mailbox_, out_),
        services_{config_, clock,         deadlines_,      recorder, mailbox_,
                  ids_,    router_,       flights_,        *ledger_, metrics_,
                  keys_,   observations_, upstream_facts_, {}},
        work_(io_.get_executor()),
        acceptor_(io_),
        admin_acceptor_(io_),
        tick_(io_),
        closing_timer_(io_) {}

  ~Impl() {
    // Nothing may still run in here when the members go.
    begin_drain();
    config_.timeouts.drain = std::chrono::milliseconds(1);
    if (!finished_) io_.run();
    mailbox_->close();
  }

  Result<void> start(std::vector<LocalModel> models, BoundAddresses addresses) {
    auto means = make_means(config_);
    if (!means) return means.error();
    put_in_force(std::move(*means));
    if (auto recorded = record_start(models); !recorded) return recorded.error();
    if (!models.empty()) {
      std::vector<std::string> names;
      for (const LocalModel& model : models) names.push_back(model.name);
      router_.set_local(make_local_upstream(mailbox_, clock_, std::move(models)), std::move(names));
    }
    if (auto open = addresses.clients.listen(acceptor_); !open) return open.error();
    address_ = address_of(acceptor_);
    if (addresses.admin) {
      if (auto open = addresses.admin->listen(admin_acceptor_); !open) return open.error();
      admin_address_ = address_of(admin_acceptor_);
    }
    deadlines_.start();
    tick();
    net::co_spawn(io_, accept(acceptor_, false), net::detached);
    if (config_.admin_enabled) net::co_spawn(io_, accept(admin_acceptor_, true), net::detached);
    return {};
  }

  /// For the operator's page. Without it the page says less.
  void look_at(const std::filesystem::path& data_dir) {
    if (!config_.admin_enabled) return;
    auto overview = audit::LogOverview::open(data_dir);
    if (overview) overview_ = std::move(*overview);
    log_pages_ = std::make_unique<LogPages>(data_dir, config_.admin_token.empty());
  }

  void run() {
    io_.run();
    finished_ = true;
  }

  void begin_drain() {
    net::post(io_, [this] {
      if (std::exchange(services_.draining, true)) return;
      error_code ignored;
      acceptor_.close(ignored);
      for (const auto& client : clients_) {
        if (client->idle()) client->close();
      }
      drain_deadline_.emplace(deadlines_, [this] {
        // Not from within the deadlines' round: sessions end by this, and take their deadlines with them.
        net::post(io_, [this] { cut_off(); });
      });
      drain_deadline_->arm(config_.timeouts.drain);
      finish_if_drained();
    });
  }

  void reload(GatewayConfig next) {
    net::post(io_, [this, next = std::move(next)]() mutable {
      if (services_.draining) return;
      const auto applied = apply(std::move(next));
      if (applied) {
        out_->info("the new configuration is in force");
      } else {
        out_->error("the new configuration is refused, and the one before stays in force: {}",
                    applied.error().message());
      }
    });
  }

  [[nodiscard]] const HostPort& address() const { return address_; }
  [[nodiscard]] const HostPort& admin_address() const { return admin_address_; }

 private:
  /// What is made of a configuration, all of it before any of it is used.
  struct Means {
    std::vector<Router::Remote> remotes;
    std::shared_ptr<net::ssl::context> tls;
  };

  Result<Means> make_means(const GatewayConfig& config) {
    Means means;
    for (const UpstreamConfig& each : config.upstreams) {
      auto upstream =
          make_remote_upstream(io_, deadlines_, clock_, each, config.limits, config.timeouts);
      if (!upstream) return upstream.error();
      means.remotes.push_back({std::move(*upstream), each.dialect});
    }
    if (config.tls.enabled()) {
      auto tls = make_server_tls(config.tls);
      if (!tls) return tls.error();
      means.tls = std::move(*tls);
    }
    return Result<Means>(boost::system::in_place_value, std::move(means));
  }

  void put_in_force(Means means) {
    std::vector<UpstreamFacts::Asked> asked;
    for (std::size_t i = 0; i < means.remotes.size(); ++i) {
      const UpstreamConfig& upstream = config_.upstreams[i];
      if (upstream.environment_paths.empty()) continue;
      asked.push_back(
          {means.remotes[i].upstream, upstream.environment_paths, upstream.environment_every});
    }
    upstream_facts_.replace(std::move(asked));
    router_.set_remotes(std::move(means.remotes));
    tls_ = std::move(means.tls);
    keys_.replace(config_.keys);
  }

  Result<void> apply(GatewayConfig next) {
    if (const std::string_view setting = needs_restart(config_, next); !setting.empty()) {
      return Error{Errc::unsupported, "'" + std::string(setting) + "' has changed", "",
                   "this comes into force with a restart only"};
    }
    auto means = make_means(next);
    if (!means) return means.error();
    // Queued before any request that it decides about.
    recorder_.append(config_leaf(next), [ledger = ledger_, mailbox = mailbox_](auto result) {
      if (result) return;
      mailbox->post([ledger, what = result.error().message()] { ledger->complain(what); });
    });
    config_ = std::move(next);
    put_in_force(std::move(*means));
    return {};
  }

  static audit::LeafDraft config_leaf(const GatewayConfig& config) {
    const std::string text = describe_config(config);
    const bool closed = config.on_log_failure == OnLogFailure::fail_closed;
    auto leaf = draft_of("config", {{"sha256", sha256(text).hex()},
                                    {"mode", mode_name(config.mode)},
                                    {"on_log_failure", closed ? "fail_closed" : "fail_open"}});
    leaf.contents.push_back({"config", text});
    return leaf;
  }

  Result<void> record_start(const std::vector<LocalModel>& models) {
    auto environment = append_and_wait(recorder_, draft_of("environment", describe_environment()));
    if (!environment) return environment.error();
    services_.environment = environment->index;
    if (auto appended = append_and_wait(recorder_, config_leaf(config_)); !appended) {
      return appended.error();
    }
    for (const LocalModel& model : models) {
      auto appended = append_and_wait(recorder_, draft_of("model", describe_local_model(model)));
      if (!appended) return appended.error();
    }
    return {};
  }

  net::awaitable<void> accept(tcp::acceptor& acceptor, bool admin) {
    for (;;) {
      // The operator is let in however many clients there are.
      while (!admin && clients_.size() >= config_.limits.connections_max) {
        co_await place_free_.wait();
      }
      auto [error, socket] = co_await acceptor.async_accept(kTuple);
      if (!acceptor.is_open()) co_return;
      if (error) {
        // Out of file descriptors, mostly: wait for some to come back.
        out_->warn("cannot accept a connection: {}", error.message());
        net::steady_timer pause(io_, std::chrono::milliseconds(50));
        static_cast<void>(co_await pause.async_wait(kTuple));
        continue;
      }
      start_session(std::move(socket), admin);
    }
  }

  void start_session(tcp::socket socket, bool admin) {
    // Room for the longest stretch that a request's parser waits for.
    const std::size_t buffer_bytes = 2 * std::size_t{config_.limits.header_bytes_max} + 65536;
    const auto client = std::make_shared<ClientConnection>(std::move(socket), deadlines_,
                                                           buffer_bytes, admin ? nullptr : tls_);
    clients_.insert(client);
    metrics_.set_connections(+1);
    net::co_spawn(
        io_,
        admin ? serve_admin(client, services_, overview_.get(), log_pages_.get())
              : serve(client, services_),
        [this, client](const std::exception_ptr& thrown) { end_session(client, thrown); });
  }

  void end_session(const std::shared_ptr<ClientConnection>& client,
                   const std::exception_ptr& thrown) {
    if (thrown) {
      try {
        std::rethrow_exception(thrown);
      } catch (const std::exception& bug) {
        out_->error("a session ended with an exception: {}", bug.what());
      }
      client->abort();
    }
    clients_.erase(client);
    // With TLS a connection says that it ends, and that takes a moment longer.
    if (tls_) {
      std::erase_if(closing_, [](const auto& each) { return each.expired(); });
      closing_.push_back(client);
    }
    metrics_.set_connections(-1);
    place_free_.wake();
    finish_if_drained();
  }

  /// The drain took too long. First everybody is told, so that each exchange ends as what it is and clients who were
  /// given nothing get an answer; who then still holds his connection is cut off.
  void cut_off() {
    if (!drain_deadline_) return;  // all have ended
    const std::vector<std::shared_ptr<ClientConnection>> left(clients_.begin(), clients_.end());
    for (const auto& client : left) {
      if (cut_off_begun_) {
        client->abort();
      } else {
        client->interrupt();
      }
    }
    cut_off_begun_ = true;
    if (drain_deadline_) drain_deadline_->arm(kCutOffWithin);
  }

  void finish_if_drained() {
    if (!services_.draining || !clients_.empty()) return;
    error_code ignored;
    admin_acceptor_.close(ignored);
    drain_deadline_.reset();
    stop_deadlines();
    upstream_facts_.stop();
    ended_ = true;
    tick_.cancel();
    router_.drain();
    ledger_->settle();
    work_.reset();
  }

  /// Once no connection needs one to be closed.
  void stop_deadlines() {
    std::erase_if(closing_, [](const auto& each) { return each.expired(); });
    if (closing_.empty()) return deadlines_.stop();
    closing_timer_.expires_after(Deadlines::kResolution);
    closing_timer_.async_wait([this](error_code) { stop_deadlines(); });
  }

  void tick() {
    tick_.expires_after(std::chrono::seconds(1));
    tick_.async_wait([this](error_code error) {
      // A timer that had expired before it was cancelled says nothing of the cancellation.
      if (error || ended_) return;
      ledger_->settle();
      tick();
    });
  }

  GatewayConfig config_;
  const Clock& clock_;
  Recorder& recorder_;
  net::io_context io_{1};  // one thread runs it
  std::shared_ptr<Mailbox> mailbox_;
  Deadlines deadlines_;
  UuidGenerator ids_;
  Router router_;
  Flights flights_;
  const std::shared_ptr<spdlog::logger> out_ = make_logger();
  std::shared_ptr<Ledger> ledger_;  // shared with the log's callbacks
  Metrics metrics_;
  KeyRing keys_;
  Observations observations_;
  UpstreamFacts upstream_facts_;
  std::unique_ptr<audit::LogOverview> overview_;
  std::unique_ptr<LogPages> log_pages_;
  Services services_;
  net::executor_work_guard<net::io_context::executor_type> work_;
  tcp::acceptor acceptor_, admin_acceptor_;
  HostPort address_, admin_address_;  // as they were when it began to listen: read by any thread
  net::steady_timer tick_, closing_timer_;
  std::shared_ptr<net::ssl::context> tls_;  // for connections that come in; null for plain HTTP
  std::vector<std::weak_ptr<ClientConnection>> closing_;  // their sessions have ended
  std::set<std::shared_ptr<ClientConnection>> clients_;
  Signal place_free_;
  std::optional<Deadlines::Entry> drain_deadline_;
  bool cut_off_begun_ = false;
  bool ended_ = false;     // all have been served
  bool finished_ = false;  // and run() has returned
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::start(GatewayConfig config, const Clock& clock,
                                              Recorder& recorder, std::vector<LocalModel> models,
                                              BoundAddresses addresses) {
  auto impl = std::make_unique<Impl>(std::move(config), clock, recorder);
  if (auto started = impl->start(std::move(models), std::move(addresses)); !started) {
    return started.error();
  }
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Result<std::unique_ptr<Server>> Server::start(GatewayConfig config, const Clock& clock,
                                              audit::Log& log, std::vector<LocalModel> models,
                                              BoundAddresses addresses) {
  auto recorder = std::make_unique<LogRecorder>(log, clock, config.cache.memory_bytes_max);
  auto server = start(std::move(config), clock, *recorder, std::move(models), std::move(addresses));
  if (!server) return server;
  (*server)->recorder_ = std::move(recorder);
  (*server)->impl_->look_at(log.data_dir());
  return server;
}

Result<std::vector<LocalModel>> load_models(const GatewayConfig& config) {
  std::vector<LocalModel> models;
  std::set<std::string> names;
  for (const ModelConfig& each : config.models) {
    if (!names.insert(each.name).second) {
      return Error{Errc::invalid_input, "two models are named '" + each.name + "'", "",
                   "give each its own name"};
    }
    auto engine = local_engine::Engine::load(each.path, config.engine);
    if (!engine) return engine.error();
    models.push_back({each.name, each.path.string(), std::move(*engine), each.layer_digest_bytes,
                      each.activation_fingerprints});
  }
  return models;
}

Result<void> check_start(const GatewayConfig& config) {
  for (const UpstreamConfig& upstream : config.upstreams) {
    if (auto checked = check_remote_upstream(upstream); !checked) return checked.error();
  }
  if (!config.tls.enabled()) return {};
  const auto tls = make_server_tls(config.tls);
  if (!tls) return tls.error();
  return {};
}

HostPort Server::address() const { return impl_->address(); }
HostPort Server::admin_address() const { return impl_->admin_address(); }
void Server::run() { impl_->run(); }
void Server::reload(GatewayConfig config) { impl_->reload(std::move(config)); }
void Server::begin_drain() { impl_->begin_drain(); }

}  // namespace verbatim::gateway
