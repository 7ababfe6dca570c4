#pragma once
// A gateway on a free port, on a thread of its own, with a log in memory.

#include "fake_recorder.hpp"
#include "gateway/server.hpp"
#include "sockets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

namespace verbatim::test {

class GatewayTest : public testing::Test {
 protected:
  GatewayTest() {
    config_.listen = {"127.0.0.1", 0};
    config_.admin = {"127.0.0.1", 0};
    config_.timeouts.drain = std::chrono::milliseconds(2000);
  }
  ~GatewayTest() override { stop(); }

  void add_upstream(const std::string& name, const std::string& url) {
    config_.upstreams.push_back(gateway::parse_upstream(name + "=" + url).value());
  }
  void start(std::vector<gateway::LocalModel> models = {}) {
    server_ = gateway::Server::start(config_, clock_, recorder_, std::move(models),
                                     gateway::BoundAddresses::take(config_).value())
                  .value();
    thread_ = std::thread([this] { server_->run(); });
  }
  /// A gateway before one upstream that does as told.
  void start_before(MockUpstream::Serve serve) {
    upstream_ = std::make_unique<MockUpstream>(std::move(serve));
    add_upstream("mock", upstream_->url());
    start();
  }
  void stop() {
    recorder_.release();
    if (server_) server_->begin_drain();
    if (thread_.joinable()) thread_.join();
    server_.reset();
    upstream_.reset();
  }

  [[nodiscard]] Wire client() const { return Wire::connect(server_->address().port); }
  [[nodiscard]] Wire admin() const { return Wire::connect(server_->admin_address().port); }

  static std::string post(const std::string& target, const std::string& body,
                          const std::string& fields = "") {
    return "POST " + target + " HTTP/1.1\r\nHost: gateway\r\n" + fields +
           "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  }
  static std::string answer(const std::string& body, const std::string& type = "application/json") {
    return "HTTP/1.1 200 OK\r\nContent-Type: " + type +
           "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  static std::string chunk(const std::string& data) {
    char size[16];
    std::snprintf(size, sizeof size, "%zx\r\n", data.size());
    return size + data + "\r\n";
  }
  /// The last response leaf, once there are so many.
  Json response_leaf(std::size_t count = 1) {
    const auto leaves = recorder_.wait_for("response", count);
    return leaves.size() < count ? Json() : leaves.back().fields;
  }

  SystemClock clock_;
  FakeRecorder recorder_;
  gateway::GatewayConfig config_;
  std::unique_ptr<MockUpstream> upstream_;
  std::unique_ptr<gateway::Server> server_;
  std::thread thread_;
};

}  // namespace verbatim::test
