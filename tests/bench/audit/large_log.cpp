// Fills a log with many exchanges, as the gateway records them: what bench_large_log.py measures the commands on.
//
// usage: audit_large_log FOLDER EXCHANGES [BODY-BYTES]
//
// An exchange is a request and a response, with a body each. A year of times; five models, of which one is asked for
// once in 100,000 exchanges; three tenants; one exchange in a thousand ends badly.

#include "audit/log.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

using verbatim::Json;
using namespace verbatim::audit;

constexpr std::int64_t kFirstUs = 1'750'000'000'000'000;  // June 2025
constexpr std::size_t kUnderWay = 2048;
constexpr std::size_t kSaidEach = 500'000;
constexpr std::int64_t kYearUs = std::int64_t{365} * 86'400 * 1'000'000;

std::string model_of(std::size_t number) {
  if (number % 100'000 == 77'777) return "seldom";
  static const char* const kModels[] = {"llama-8b", "qwen-7b", "gemma-9b", "mistral-7b"};
  return kModels[number % 4];
}

std::string body_of(std::size_t number, std::size_t bytes) {
  std::string body = "{\"number\":" + std::to_string(number) + ",\"text\":\"";
  std::uint64_t state = number + 1;
  while (body.size() + 2 < bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    body += "abcdefghijklmnop"[state >> 60];
  }
  return body + "\"}";
}

LeafDraft request_of(std::size_t number, const verbatim::Uuid& id, std::size_t bytes) {
  LeafDraft draft;
  draft.type = "request";
  draft.id = id;
  draft.fields = {{"mode", "strict"},
                  {"tenant", number % 3 == 0   ? "default"
                             : number % 3 == 1 ? "research"
                                               : "support"},
                  {"determinism", "greedy"},
                  {"params", {{"temperature", "0"}, {"max_tokens", "64"}}},
                  {"model", {{"requested", model_of(number)}, {"level", "claimed"}}},
                  {"route",
                   {{"api", "openai.chat"},
                    {"method", "POST"},
                    {"target", "/v1/chat/completions"},
                    {"upstream", "openai"}}}};
  draft.contents = {{"request.body", body_of(number, bytes)}};
  return draft;
}

LeafDraft response_of(std::size_t number, const Appended& request, std::size_t bytes) {
  LeafDraft draft;
  draft.type = "response";
  draft.id = request.id;
  draft.fields = {{"request", request.index},
                  {"status", number % 1000 == 999 ? "upstream_error" : "complete"},
                  {"http_status", number % 1000 == 999 ? 502 : 200},
                  {"cache", "miss"}};
  draft.contents = {{"response.body", body_of(number + 1, bytes)}};
  return draft;
}

/// Appends drafts and waits for all: where each came to stand.
std::vector<Appended> append_all(Log& log, std::vector<LeafDraft> drafts) {
  std::mutex mutex;
  std::condition_variable told;
  std::vector<Appended> appended;
  const std::size_t count = drafts.size();
  for (LeafDraft& draft : drafts) {
    log.append(std::move(draft), [&](const verbatim::Result<Appended>& result) {
      if (!result) {
        std::fprintf(stderr, "%s\n", result.error().what.c_str());
        std::abort();
      }
      const std::lock_guard lock(mutex);
      appended.push_back(*result);
      told.notify_one();
    });
  }
  std::unique_lock lock(mutex);
  told.wait(lock, [&] { return appended.size() == count; });
  return appended;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: audit_large_log FOLDER EXCHANGES [BODY-BYTES]\n");
    return 2;
  }
  const std::size_t exchanges = std::strtoul(argv[2], nullptr, 10);
  const std::size_t bytes = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 100;
  verbatim::ManualClock clock(kFirstUs);
  verbatim::UuidGenerator ids(clock);
  LogOptions options;
  options.data_dir = argv[1];
  options.mode = DurabilityMode::relaxed;
  options.listen = false;
  const auto log = Log::open(options, clock).value();
  for (std::size_t first = 0; first < exchanges; first += kUnderWay) {
    const std::size_t end = std::min(first + kUnderWay, exchanges);
    std::vector<LeafDraft> requests, responses;
    for (std::size_t i = first; i < end; ++i) {
      clock.advance_us(kYearUs / static_cast<std::int64_t>(exchanges));
      requests.push_back(request_of(i, ids.next(), bytes));
    }
    const auto open = append_all(*log, std::move(requests));
    for (std::size_t i = first; i < end; ++i)
      responses.push_back(response_of(i, open[i - first], bytes));
    append_all(*log, std::move(responses));
    if (end / kSaidEach > first / kSaidEach) {
      std::printf("%zu exchanges\n", end);
      std::fflush(stdout);
    }
  }
}
