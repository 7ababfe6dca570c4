#pragma once
// What exchanges share: made by the server, borrowed by every exchange. All on the gateway's
// thread.

#include "gateway/cache.hpp"
#include "gateway/config.hpp"
#include "gateway/deadline.hpp"
#include "gateway/gateway_keys.hpp"
#include "gateway/ledger.hpp"
#include "gateway/metrics.hpp"
#include "gateway/observations.hpp"
#include "gateway/recorder.hpp"
#include "gateway/router.hpp"
#include "gateway/upstream_facts.hpp"
#include "schema/uuid.hpp"

#include <memory>
#include <optional>

namespace verbatim::gateway {

struct Services {
  const GatewayConfig& config;
  const Clock& clock;
  Deadlines& deadlines;
  Recorder& recorder;
  std::shared_ptr<Mailbox> mailbox;
  UuidGenerator& ids;
  Router& router;
  Flights& flights;
  Ledger& ledger;
  Metrics& metrics;
  KeyRing& keys;
  Observations& observations;
  UpstreamFacts& upstream_facts;
  std::optional<std::uint64_t> environment;  ///< index of the `environment` leaf in force
  bool draining = false;
};

}  // namespace verbatim::gateway
