// verbatim gateway: the service.

#include "audit/key_file.hpp"
#include "audit/log.hpp"
#include "cli/command.hpp"
#include "cli/model_places.hpp"
#include "cli/show_text.hpp"
#include "gateway/config.hpp"
#include "gateway/server.hpp"
#include "kernels/backend.hpp"
#include "kernels/profile.hpp"

#include <boost/asio/ip/address.hpp>
#include <kConfigSchema.hpp>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <thread>

namespace verbatim::cli {

namespace {

struct GatewayFlags {
  std::string listen, admin, mode;
  std::vector<std::string> upstreams, models;
  std::string new_key;
  bool check = false, schema = false;
};

Result<audit::DurabilityMode> mode_of(const std::string& name) {
  for (const auto mode : {audit::DurabilityMode::strict, audit::DurabilityMode::overlap,
                          audit::DurabilityMode::relaxed}) {
    if (name == gateway::mode_name(mode)) return mode;
  }
  return Error{Errc::invalid_input, "unknown mode '" + name + "'", "--mode",
               "use strict, overlap or relaxed"};
}

/// What the configuration `file` holds, with what the command line says put over it.
Result<gateway::GatewayConfig> effective_config(const Context& context, const GatewayFlags& flags,
                                                const std::string& file) {
  auto parsed = gateway::parse_config(file, context.config);
  if (!parsed) return parsed.error();
  gateway::GatewayConfig config = std::move(*parsed);
  if (!flags.listen.empty()) {
    const auto address = gateway::parse_host_port(flags.listen);
    if (!address) return address.error();
    config.listen = *address;
  }
  if (!flags.admin.empty()) {
    const auto address = gateway::parse_host_port(flags.admin);
    if (!address) return address.error();
    config.admin = *address;
  }
  if (!flags.mode.empty()) {
    const auto mode = mode_of(flags.mode);
    if (!mode) return mode.error();
    config.mode = *mode;
  }
  for (const std::string& text : flags.upstreams) {
    auto upstream = gateway::parse_upstream(text);
    if (!upstream) return upstream.error();
    config.upstreams.push_back(std::move(*upstream));
  }
  for (const std::string& text : flags.models) {
    auto model = gateway::parse_model(text);
    if (!model) return model.error();
    config.models.push_back(std::move(*model));
  }
  if (config.upstreams.empty() && config.models.empty()) {
    const auto demo = demo_model_path();
    if (!demo) return demo.error();
    config.models.push_back({"demo", *demo});
  }
  return config;
}

/// What a start would find wrong, found without starting: names given twice, files that are not there.
Result<void> check_config(const gateway::GatewayConfig& config) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& upstream : config.upstreams) {
    if (!names.insert(upstream.name).second) {
      return Error{Errc::invalid_input, "two upstreams have the same name", upstream.name,
                   "the record could not tell them apart"};
    }
    if (!upstream.ca_file.empty() && !std::filesystem::exists(upstream.ca_file, ignored)) {
      return Error{Errc::not_found, "no such CA file", upstream.ca_file.string(),
                   "check ca_file of upstream " + upstream.name};
    }
  }
  if (auto usable = gateway::check_start(config); !usable) return usable.error();
  if (auto known = local_engine::check_backend(config.engine); !known) return known.error();
  if (auto known = kernels::parse_profile(config.engine.profile); !known) return known.error();
  if (config.admin_enabled && config.listen.port != 0 &&
      config.listen.str() == config.admin.str()) {
    return Error{Errc::invalid_input, "clients and operators are given the same address",
                 config.listen.str(), "choose another for --admin (gateway.admin)"};
  }
  names.clear();
  for (const auto& model : config.models) {
    if (!names.insert(model.name).second) {
      return Error{Errc::invalid_input, "two models have the same name", model.name,
                   "give each its own"};
    }
    if (!std::filesystem::exists(model.path, ignored)) {
      return Error{Errc::not_found, "no such model", model.path.string(),
                   "check the path of model " + model.name + "; it is relative to " +
                       std::filesystem::current_path(ignored).string()};
    }
  }
  return {};
}

/// No mistake, but seldom what was meant.
void warn_of_expired_keys(const gateway::GatewayConfig& config) {
  const std::int64_t now_us = SystemClock().now_us();
  for (const auto& key : config.keys) {
    if (key.expires_us == 0 || key.expires_us > now_us) continue;
    std::cerr << "verbatim: the gateway key '" << key.name << "' expired at "
              << format_rfc3339(key.expires_us) << ": requests with it are refused\n";
  }
}

/// No mistake either, behind a firewall.
void warn_of_open_admin(const gateway::GatewayConfig& config) {
  boost::system::error_code ignored;
  const auto address = boost::asio::ip::make_address(config.admin.host, ignored);
  if (!config.admin_enabled || !config.admin_token.empty() || ignored || address.is_loopback())
    return;
  std::cerr << "verbatim: metrics and dashboard are open to whoever reaches " << config.admin.str()
            << ": set gateway.admin_token, or give --admin a loopback address\n";
}

/// The configuration's key is for a log that is made anew: an operator who changed it may have meant more.
void warn_of_other_signing_key(const Context& context, const gateway::GatewayConfig& config) {
  if (config.signing_key.empty()) return;
  const auto lines = audit::read_key_file(std::filesystem::path(context.data) / "log.key");
  if (!lines || lines->front().uri == config.signing_key) return;
  std::cerr << "verbatim: the log goes on with the key that it has, which is not log.signing_key: "
               "verbatim keys rotate --to changes it\n";
}

/// SIGTERM and SIGINT drain; a second one ends at once. SIGHUP reloads. Blocks them in every thread made after it, and
/// waits for them on a thread of its own, so that nothing runs in a signal handler.
class Signals {
 public:
  Signals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGHUP);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGUSR2);  // our own way to end the wait
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    // A peer that goes away is a value of write(), never a signal.
    ::signal(SIGPIPE, SIG_IGN);
  }
  ~Signals() { stop(); }
  /// Before the server goes.
  void stop() {
    if (!waiter_.joinable()) return;
    done_ = true;
    pthread_kill(waiter_.native_handle(), SIGUSR2);
    waiter_.join();
    // From here on one more signal does what it does to any program: a thread that does not end must not keep us.
    sigset_t ends{};
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  void start(gateway::Server& server, std::function<void()> reload) {
    waiter_ = std::thread([this, &server, reload = std::move(reload)] {
      bool draining = false;
      for (;;) {
        int number = 0;
        if (sigwait(&signals_, &number) != 0 || done_) return;
        if (number == SIGUSR2) continue;  // somebody else's
        if (number == SIGHUP) {
          reload();
          continue;
        }
        if (draining)
          _exit(128 + number);  // asked twice: as if killed, and recovery closes what is open
        draining = true;
        std::cerr << "verbatim: draining; a second signal ends at once\n";
        server.begin_drain();
      }
    });
  }

 private:
  sigset_t signals_{};
  std::atomic<bool> done_ = false;
  std::thread waiter_;
};

/// Thousands of streams need as many descriptors as the system lets us have.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  // Bodies and keys are in memory: a core file would hold them.
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
}

/// "; upstreams openai, anthropic; models demo"
std::string serves(const gateway::GatewayConfig& config) {
  const auto listed = [](const auto& all, const char* what) {
    std::string text;
    for (const auto& each : all) text += (text.empty() ? what : ", ") + each.name;
    return text;
  };
  return listed(config.upstreams, "; upstreams: ") + listed(config.models, "; models: ");
}

void announce(const Context& context, const gateway::GatewayConfig& config,
              const gateway::Server& server) {
  const bool admin = config.admin_enabled;
  const std::string url = (config.tls.enabled() ? "https://" : "http://") + server.address().str();
  if (context.json) {
    OrderedJson line = {{"listening", url}};
    if (admin) line["admin"] = "http://" + server.admin_address().str();
    line["data"] = context.data;
    print_json(line);
  } else {
    std::cout << "listening on " << url << std::endl;
  }
  if (context.quiet) return;
  std::cerr << "verbatim: the log is in " << one_line(context.data + serves(config)) << '\n';
  if (admin)
    std::cerr << "verbatim: health and metrics on http://" << server.admin_address().str() << '\n';
}

/// A key for a user, and what the configuration has to know of it.
int make_key(const Context& context, const std::string& name) {
  const gateway::NewKey made = gateway::make_gateway_key();
  if (context.json) {
    print_json(OrderedJson{{"name", name}, {"key", made.key}, {"hash", made.hash.str()}});
  } else {
    std::cerr << "verbatim: the key is shown this once; give it to its user, and the rest to the "
                 "configuration\n";
    std::cout << made.key << "\n\n[[key]]\nname = " << Json(name).dump() << "\nhash = \""
              << made.hash.str() << "\"\n";
  }
  return kDone;
}

/// The file as it is now. Without one, what the command line says stays.
Result<std::string> reread_config(const Context& context) {
  std::error_code ignored;
  if (context.config.empty()) return std::string();
  if (!std::filesystem::is_regular_file(context.config, ignored)) {
    return Error{Errc::invalid_input, "the configuration cannot be read a second time",
                 context.config, "--config must name a file for a reload"};
  }
  return read_input(context.config);
}

/// What is in force stays so if the new configuration cannot be.
void reload_config(const Context& context, const GatewayFlags& flags, gateway::Server& server) {
  const auto text = reread_config(context);
  const auto config =
      text ? effective_config(context, flags, *text) : Result<gateway::GatewayConfig>(text.error());
  const auto checked = config ? check_config(*config) : Result<void>(config.error());
  if (!checked) {
    std::cerr << "verbatim: the new configuration is refused, and the one before stays in force: "
              << one_line(checked.error().message()) << '\n';
    return;
  }
  server.reload(*config);
}

int run_gateway(const Context& context, const GatewayFlags& flags) {
  if (!flags.new_key.empty()) return make_key(context, flags.new_key);
  if (flags.schema) {
    std::cout << kConfigSchema;
    return kDone;
  }
  const auto config = effective_config(context, flags, context.config_text);
  if (!config) return fail(config.error());
  const auto checked = check_config(*config);
  if (!checked) return fail(checked.error());
  warn_of_expired_keys(*config);
  warn_of_open_admin(*config);
  if (flags.check) {
    std::cerr << "verbatim: the configuration is well; the log would be in "
              << std::filesystem::absolute(context.data).string()
              << "; paths are relative to this folder; what is in force by it:\n";
    std::cout << gateway::describe_config(*config) << '\n';
    return kDone;
  }
  raise_descriptor_limit();
  Signals signals;  // before any thread is made

  auto models = gateway::load_models(*config);
  if (!models) return fail(models.error());
  for (const auto& model : *models) {
    if (const auto reason = model.engine->fallback_reason(); !reason.empty()) {
      std::cerr << "verbatim: the processor serves model " << one_line(model.name + ": " + reason)
                << '\n';
    }
  }
  // Before there is a log: a start that fails leaves no folder behind.
  auto addresses = gateway::BoundAddresses::take(*config);
  if (!addresses) return fail(addresses.error());
  static const SystemClock clock;
  audit::LogOptions options;
  options.data_dir = context.data;
  options.mode = config->mode;
  options.key = config->signing_key;
  options.warn = warn;
  auto log = audit::Log::open(options, clock);
  if (!log) return fail(log.error());
  warn_of_other_signing_key(context, *config);

  std::vector<replay::ModelPlace> places;
  for (const auto& model : config->models) places.push_back({model.name, model.path});
  write_model_places(context.data, places);

  auto server =
      gateway::Server::start(*config, clock, **log, std::move(*models), std::move(*addresses));
  if (!server) return fail(server.error());
  announce(context, *config, **server);
  signals.start(**server, [&] { reload_config(context, flags, **server); });
  (*server)->run();
  signals.stop();
  const bool healthy = (*log)->healthy();
  server->reset();
  log->reset();
  if (!healthy) {
    return fail(Error{Errc::storage_failed, "the log could not be written at the end", context.data,
                      "run verbatim verify"});
  }
  if (!context.quiet) std::cerr << "verbatim: stopped; the log is closed\n";
  return kDone;
}

}  // namespace

void add_gateway(CLI::App& app, Context& context) {
  auto flags = std::make_shared<GatewayFlags>();
  CLI::App* command = app.add_subcommand("gateway", "serve clients, record every exchange");
  command->add_option("--listen", flags->listen,
                      "HOST:PORT; port 0 picks a free one (default 127.0.0.1:8080)");
  command->add_option("--admin", flags->admin,
                      "HOST:PORT of health and metrics (default: loopback, a free port)");
  command->add_option("--upstream", flags->upstreams,
                      "NAME=URL of a provider, with or without /v1");
  command->add_option("--model", flags->models, "NAME=PATH of a model to serve here");
  command->add_option("--mode", flags->mode, "strict, overlap or relaxed");
  command->add_option("--new-key", flags->new_key,
                      "make a key of the gateway for NAME, print it and its hash, and end");
  command->add_flag("--schema", flags->schema,
                    "print the JSON Schema of the configuration, and end");
  command->add_flag("--check", flags->check, "check the configuration, print it, and end");
  add_common(*command, context,
             "verbatim gateway --listen 127.0.0.1:8080 --upstream openai=https://api.openai.com");
  command->callback([&context, flags] { context.exit_code = run_gateway(context, *flags); });
}

}  // namespace verbatim::cli
