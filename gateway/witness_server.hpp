#pragma once
// A witness on HTTP (C2SP tlog-witness): plain, for a proxy with TLS in front of it or a network of one's own.

#include "audit/witness.hpp"
#include "gateway/config.hpp"
#include "schema/clock.hpp"

#include <memory>

namespace verbatim::gateway {

/// One thread serves, and writes the witness's state.
class WitnessServer {
 public:
  /// Connections wait until run(). `witness` and `clock` must outlive it. `unavailable`: the address.
  [[nodiscard]] static Result<std::unique_ptr<WitnessServer>> start(const HostPort& listen,
                                                                    audit::Witness& witness,
                                                                    const Clock& clock);
  ~WitnessServer();

  [[nodiscard]] HostPort address() const;
  /// Serves, on the calling thread, until SIGTERM or SIGINT.
  void run();

 private:
  class Impl;
  explicit WitnessServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace verbatim::gateway
