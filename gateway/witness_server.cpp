#include "gateway/witness_server.hpp"

#include "gateway/client_connection.hpp"
#include "gateway/http.hpp"
#include "gateway/http_text.hpp"
#include "gateway/listener.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/signal_set.hpp>

#include <chrono>
#include <csignal>
#include <set>
#include <utility>

namespace verbatim::gateway {

namespace {

constexpr std::uint32_t kHeaderBytesMax = 8192;
constexpr std::size_t kConnectionsMax = 256;

/// The specification has one path to post to; what is read lies under the origin's hash.
audit::WitnessAnswer answer_to(audit::Witness& witness, RequestParser& request) {
  const RequestHead& head = request.head();
  const std::string_view path = std::string_view(head.target).substr(0, head.target.find('?'));
  constexpr const char* kText = "text/plain; charset=utf-8";
  if (path == "/add-checkpoint") {
    if (head.method != "POST") return {405, kText, "only POST\n"};
    return witness.add_checkpoint(request.body());
  }
  if (head.method == "GET" && path.starts_with("/")) return witness.read(path.substr(1));
  return {404, kText, "not found\n"};
}

}  // namespace

class WitnessServer::Impl {
 public:
  Impl(audit::Witness& witness, const Clock& clock)
      : witness_(witness),
        clock_(clock),
        deadlines_(io_, clock),
        acceptor_(io_),
        signals_(io_, SIGTERM, SIGINT) {}

  Result<void> start(const HostPort& where) {
    if (auto open = listen(acceptor_, where, "listen"); !open) return open;
    address_ = address_of(acceptor_);
    deadlines_.start();
    net::co_spawn(io_, accept(), net::detached);
    signals_.async_wait([this](error_code, int) { stop(); });
    return {};
  }

  void run() { io_.run(); }
  [[nodiscard]] const HostPort& address() const { return address_; }

 private:
  void stop() {
    error_code ignored;
    acceptor_.close(ignored);
    for (const auto& client : clients_) client->close();
    deadlines_.stop();
  }

  net::awaitable<void> accept() {
    for (;;) {
      auto [error, socket] = co_await acceptor_.async_accept(kTuple);
      if (!acceptor_.is_open()) co_return;
      // More than that many at once are no log's affair: they are hung up on.
      if (error || clients_.size() >= kConnectionsMax) continue;
      const auto client = std::make_shared<ClientConnection>(std::move(socket), deadlines_,
                                                             kHeaderBytesMax + 65536);
      clients_.insert(client);
      net::co_spawn(io_, serve(client), [this, client](const std::exception_ptr& thrown) {
        if (thrown) client->abort();
        clients_.erase(client);
      });
    }
  }

  net::awaitable<void> serve(std::shared_ptr<ClientConnection> client) {
    return serve_pages(
        std::move(client), clock_, {audit::kNoteBytesMax},
        [this](RequestParser& request) -> net::awaitable<Page> {
          const audit::WitnessAnswer answer = answer_to(witness_, request);
          co_return Page{answer.status, answer.body, answer.type, "",
                         answer.status == 405 ? "POST" : ""};
        },
        [] { return false; });
  }

  audit::Witness& witness_;
  const Clock& clock_;
  net::io_context io_{1};
  Deadlines deadlines_;
  tcp::acceptor acceptor_;
  HostPort address_;  // as it was when it began to listen: read by any thread
  net::signal_set signals_;
  std::set<std::shared_ptr<ClientConnection>> clients_;
};

WitnessServer::WitnessServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WitnessServer::~WitnessServer() = default;

Result<std::unique_ptr<WitnessServer>> WitnessServer::start(const HostPort& listen,
                                                            audit::Witness& witness,
                                                            const Clock& clock) {
  auto impl = std::make_unique<Impl>(witness, clock);
  if (auto started = impl->start(listen); !started) return started.error();
  return std::unique_ptr<WitnessServer>(new WitnessServer(std::move(impl)));
}

HostPort WitnessServer::address() const { return impl_->address(); }
void WitnessServer::run() { impl_->run(); }

}  // namespace verbatim::gateway
