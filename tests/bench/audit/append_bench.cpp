// Appended records a second, beside what the disk and SQLite alone can do, in one run and interleaved.
//
//   raw      append of the bytes to a file, fdatasync for each group
//   sqlite   the bytes as rows of one table, WAL, synchronous=FULL, one commit for each group, WAL copied at 16 MiB
//   log      Log::append with everything on: commitments, tree, signature, compression, encryption
//
// usage: audit_append_bench [FOLDER] [RECORDS] [ROUNDS]      a record is one leaf with a content of 4 KB

#include "audit/database.hpp"
#include "audit/log.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

namespace {

using verbatim::Json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

/// Processor time of the whole process: what a busy machine does not distort.
double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/// What a run gave: records a second, the 99th percentile of a group's time, processor time a record.
struct Figures {
  double per_second = 0, p99_us = 0, cpu_us = 0;
};

/// Runs `one_group(first, end)` over all records.
template <class OneGroup>
Figures measure(std::size_t records, std::size_t group, OneGroup&& one_group) {
  std::vector<double> group_us;
  const double cpu = cpu_seconds();
  const auto begun = Clock::now();
  for (std::size_t i = 0; i < records; i += group) {
    const auto at = Clock::now();
    one_group(i, std::min(i + group, records));
    group_us.push_back(seconds_since(at) * 1e6);
  }
  const double seconds = seconds_since(begun);
  std::sort(group_us.begin(), group_us.end());
  const auto count = static_cast<double>(records);
  return {count / seconds, group_us[group_us.size() * 99 / 100],
          (cpu_seconds() - cpu) * 1e6 / count};
}

/// JSON-like text that compresses about as bodies do, different for each record.
std::string body(std::size_t number) {
  static const char* const kWords[] = {"the",   "model", "answers", "with",  "tokens", "and",
                                       "every", "byte",  "of",      "which", "is",     "kept"};
  std::string text = "{\"messages\":[{\"role\":\"user\",\"content\":\"";
  std::uint64_t state = number * 0x9e3779b97f4a7c15u + 1;
  while (text.size() < 4080) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text += kWords[(state >> 33) % 12];
    text += " " + std::to_string((state >> 40) % 1000) + " ";
  }
  return text + "\"}]}";
}

Figures run_raw(const std::filesystem::path& folder, const std::vector<std::string>& bodies,
                std::size_t group) {
  const int fd = ::open((folder / "raw").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const Figures result = measure(bodies.size(), group, [&](std::size_t from, std::size_t to) {
    std::string bytes;
    for (std::size_t j = from; j < to; ++j) bytes += bodies[j];
    if (::write(fd, bytes.data(), bytes.size()) < 0 || ::fdatasync(fd) != 0) std::abort();
  });
  ::close(fd);
  return result;
}

Figures run_sqlite(const std::filesystem::path& folder, const std::vector<std::string>& bodies,
                   std::size_t group) {
  using namespace verbatim::audit;
  std::filesystem::remove(folder / "bare.db");
  auto db = Database::open(folder / "bare.db", Database::Mode::create).value();
  db.execute(
        "PRAGMA page_size=16384; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
        "PRAGMA wal_autocheckpoint=1024;"
        "CREATE TABLE record (idx INTEGER PRIMARY KEY, body BLOB)")
      .value();
  Statement insert(db, "INSERT INTO record VALUES (?1, ?2)");
  return measure(bodies.size(), group, [&](std::size_t from, std::size_t to) {
    db.execute("BEGIN IMMEDIATE").value();
    for (std::size_t j = from; j < to; ++j) {
      insert.run(std::uint64_t{j}, verbatim::as_bytes(bodies[j])).finish().value();
    }
    db.execute("COMMIT").value();
  });
}

verbatim::audit::LeafDraft draft_of(const std::string& body) {
  verbatim::audit::LeafDraft draft;
  draft.type = "request";
  draft.fields = {{"mode", "strict"},
                  {"tenant", "default"},
                  {"determinism", "greedy"},
                  {"params", {{"temperature", "0"}, {"max_tokens", "64"}}},
                  {"model", {{"requested", "demo"}, {"level", "claimed"}}},
                  {"route",
                   {{"api", "openai.chat"},
                    {"method", "POST"},
                    {"target", "/v1/chat/completions"},
                    {"upstream", "openai"}}}};
  draft.contents = {{"request.body", body}};
  return draft;
}

Figures run_log(const std::filesystem::path& folder, const std::vector<std::string>& bodies,
                std::size_t group) {
  using namespace verbatim::audit;
  std::filesystem::remove_all(folder / "log");
  verbatim::SystemClock clock;
  LogOptions options;
  options.data_dir = folder / "log";
  options.listen = false;
  auto log = Log::open(options, clock).value();
  std::mutex mutex;
  std::condition_variable told;
  std::size_t done = 0;
  return measure(bodies.size(), group, [&](std::size_t from, std::size_t to) {
    for (std::size_t j = from; j < to; ++j) {
      log->append(draft_of(bodies[j]), [&](const verbatim::Result<Appended>& result) {
        if (!result) std::abort();
        const std::lock_guard lock(mutex);
        ++done;
        told.notify_one();
      });
    }
    std::unique_lock lock(mutex);
    told.wait(lock, [&] { return done == to; });
  });
}

Figures median(std::vector<Figures> runs) {
  std::sort(runs.begin(), runs.end(),
            [](const Figures& a, const Figures& b) { return a.per_second < b.per_second; });
  return runs[runs.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder =
      argc > 1 ? argv[1] : std::filesystem::temp_directory_path() / "verbatim-append-bench";
  const std::size_t most = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 8192;
  const int rounds = argc > 3 ? static_cast<int>(std::strtol(argv[3], nullptr, 10)) : 3;
  std::filesystem::create_directories(folder);
  std::printf("each column: records/s (p99 us of a group; processor us a record)\n");
  std::printf("%6s %30s %30s %30s %10s\n", "group", "raw append + fdatasync", "bare SQLite", "log",
              "log/SQLite");
  const auto show = [](const Figures& f) {
    std::printf(" %12.0f (%7.0f; %5.1f)", f.per_second, f.p99_us, f.cpu_us);
  };
  for (const std::size_t group : {1u, 16u, 64u, 256u}) {
    std::vector<std::string> bodies;
    for (std::size_t i = 0; i < std::min(most, group * 128); ++i) bodies.push_back(body(i));
    std::vector<Figures> raw, sqlite, log;
    for (int round = 0; round < rounds; ++round) {
      raw.push_back(run_raw(folder, bodies, group));
      sqlite.push_back(run_sqlite(folder, bodies, group));
      log.push_back(run_log(folder, bodies, group));
    }
    const Figures r = median(raw), s = median(sqlite), l = median(log);
    std::printf("%6zu", group);
    for (const Figures& f : {r, s, l}) show(f);
    std::printf(" %10.2f\n", l.per_second / s.per_second);
    std::fflush(stdout);
  }
  std::filesystem::remove_all(folder);
}
