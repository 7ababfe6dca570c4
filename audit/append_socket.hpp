#pragma once
// Appending from another process: `append.sock` in the data folder, mode 0600.
//
// A message is its length (32 bits, big-endian, at most 64 MiB) and one JSON object. Request:
//   {"draft":{"type":"access","fields":{...},"contents":[{"field":"...","base64":"..."}],
//             "subject":"...","canonical":{"key":"<hex>","expires_us":0}}}     all but type and fields optional
//   {"erase":{"scope":{"record":"<uuid>"},"reason":"...","actor":"..."}}
// Answer, once the leaf is durable:
//   {"appended":{"index":17,"tree_size":18,"leaf_hash":"<hex>","id":"<uuid>","time_us":...}}
//   {"erased":{"contents":3,"leaves":[17],"key_destroyed":false,"wal_emptied":true}}
//   {"error":{"code":1,"what":"...","where":"...","advice":"..."}}

#include "audit/erasure.hpp"
#include "audit/log.hpp"

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace verbatim::audit {

inline constexpr std::size_t kSocketMessageMax = 64u << 20;
inline constexpr std::size_t kSocketClientsMax = 32;

[[nodiscard]] std::string encode_draft(const LeafDraft& draft);
[[nodiscard]] Result<LeafDraft> decode_draft(std::string_view message);
[[nodiscard]] std::string encode_erase(const EraseRequest& request);
/// `not_found` if the message asks for something else.
[[nodiscard]] Result<EraseRequest> decode_erase(std::string_view message);
[[nodiscard]] std::string encode_erased(const Result<ErasureReport>& result);
[[nodiscard]] Result<ErasureReport> decode_erased(std::string_view message);
[[nodiscard]] std::string encode_result(const Result<Appended>& result);
[[nodiscard]] Result<Appended> decode_result(std::string_view message);

/// The serving end: a thread that accepts, and one for each client. Only processes of the same user are served.
class AppendSocket {
 public:
  /// `appender` must outlive the object. The folder's lock must be held: a socket file that is there is
  /// left over, and replaced. `storage_failed`.
  [[nodiscard]] static Result<std::unique_ptr<AppendSocket>> listen(
      const std::filesystem::path& folder, Appender& appender);
  /// Hangs up, and waits for the appends in flight.
  ~AppendSocket();

 private:
  struct Client;
  AppendSocket(std::filesystem::path path, Appender& appender, int fd);
  void accept_clients();
  void serve(int fd);
  std::string answer(const std::string& message);

  std::filesystem::path path_;
  Appender& appender_;
  int fd_;
  int wake_[2] = {-1, -1};  // written to when it is time to go
  std::mutex mutex_;        // guards the clients
  std::vector<std::unique_ptr<Client>> clients_;
  std::thread thread_;
};

/// The other end. `unavailable` if nobody listens.
[[nodiscard]] Result<std::unique_ptr<Appender>> connect_appender(
    const std::filesystem::path& folder);

}  // namespace verbatim::audit
