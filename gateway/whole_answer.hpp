#pragma once
// An answer that is kept whole: for what the gateway asks on its own account.

#include "gateway/upstream.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace verbatim::gateway {

class WholeAnswer final : public AnswerSink {
 public:
  explicit WholeAnswer(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  void on_head(ResponseHead head, std::optional<std::uint64_t> /*length*/,
               bool /*to_eof*/) override {
    head_ = std::move(head);
    head_given_ = true;
  }
  void on_body(std::string_view bytes) override {
    if (bytes.size() > bytes_max_ - body_.size()) {
      overflowed_ = true;
    } else {
      body_.append(bytes);
    }
  }
  [[nodiscard]] net::awaitable<bool> flush(bool /*last*/) override { co_return true; }
  [[nodiscard]] bool terminal_seen() const override { return false; }
  [[nodiscard]] bool overflowed() const override { return overflowed_; }
  [[nodiscard]] bool head_given() const override { return head_given_; }

  ResponseHead head_;
  std::string body_;

 private:
  std::uint64_t bytes_max_;
  bool overflowed_ = false;
  bool head_given_ = false;
};

}  // namespace verbatim::gateway
