#pragma once
// The gateway as a whole: listeners, upstreams, and the one thread that runs them.

#include "audit/log.hpp"
#include "gateway/config.hpp"
#include "gateway/listener.hpp"
#include "gateway/recorder.hpp"
#include "schema/clock.hpp"

#include <memory>
#include <string>
#include <vector>

namespace verbatim::gateway {

/// A model that is loaded, and the name under which clients ask for it.
struct LocalModel {
  std::string name;
  std::string path;  ///< recorded by its last part only
  std::shared_ptr<local_engine::Engine> engine;
  std::size_t layer_digest_bytes = 0;  ///< as ModelConfig has it
  bool activation_fingerprints = false;
};

/// Loads the configured models, each with the configured engine options. Errors as Engine::load().
[[nodiscard]] Result<std::vector<LocalModel>> load_models(const GatewayConfig& config);

/// What Server::start() would say of certificates, credentials and proxies, without starting.
[[nodiscard]] Result<void> check_start(const GatewayConfig& config);

class Server {
 public:
  /// Appends the `environment`, `config` and `model` leaves and listens at `addresses`, which were taken for this
  /// configuration; connections wait until run(). `clock` and `recorder` must outlive the server; the log behind `recorder`
  /// must not be destroyed before run() has returned. Errors: `invalid_input` (a certificate, a credential),
  /// `unavailable` (an address is in use or not ours), or the log's.
  [[nodiscard]] static Result<std::unique_ptr<Server>> start(GatewayConfig config,
                                                             const Clock& clock, Recorder& recorder,
                                                             std::vector<LocalModel> models,
                                                             BoundAddresses addresses);
  /// The same with the log itself.
  [[nodiscard]] static Result<std::unique_ptr<Server>> start(GatewayConfig config,
                                                             const Clock& clock, audit::Log& log,
                                                             std::vector<LocalModel> models,
                                                             BoundAddresses addresses);
  ~Server();

  /// Any thread. Where clients and administrators reach it, with the ports that port 0 became; the same while it drains.
  [[nodiscard]] HostPort address() const;
  [[nodiscard]] HostPort admin_address() const;

  /// Serves, on the calling thread, until a drain has ended.
  void run();

  /// Any thread. Puts a new configuration into force for what comes from now on, and appends its `config` leaf; reads
  /// certificates and credentials anew. If any of it cannot be used, or needs a restart, nothing changes, and the log
  /// on stderr says why.
  void reload(GatewayConfig config);

  /// Any thread, and safe to call again: takes no new connections, lets exchanges end, closes idle
  /// connections. After `timeouts.drain` what is left is cut off, and recorded as such.
  void begin_drain();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Recorder>
      recorder_;  // over the log; null if the recorder was given. Outlives impl_
  std::unique_ptr<Impl> impl_;
};

}  // namespace verbatim::gateway
