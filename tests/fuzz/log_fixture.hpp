#pragma once
// Keys and a small log, by which the targets of the log make valid inputs.

#include "audit/export.hpp"
#include "audit/log.hpp"
#include "audit/reader.hpp"
#include "tests/audit/local_tsa.hpp"
#include "tests/fuzz/scratch.hpp"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace verbatim::fuzz {

inline constexpr std::int64_t kNowSeconds = 1'795'960'796;
inline constexpr const char* kOrigin = "log.example/test";

inline audit::NoteSigningKey signing_key(std::uint8_t number = 1,
                                         const std::string& name = kOrigin) {
  audit::Ed25519Seed seed{};
  seed[0] = number;
  return audit::parse_skey(audit::format_skey(name, seed)).value();
}

inline audit::VerifierKey witness_key(std::uint8_t number, const std::string& name) {
  audit::VerifierKey key = signing_key(number, name).verifier();
  key.type = audit::kNoteCosignature;
  return key;
}

/// A log of two exchanges, and what can be had of it.
struct SmallLog {
  SmallLog() {
    audit::LogOptions options;
    options.data_dir = scratch() / "log";
    options.origin = kOrigin;
    options.listen = false;
    options.mode = audit::DurabilityMode::relaxed;
    auto log = audit::Log::open(options, clock).value();
    for (int i = 0; i < 2; ++i) {
      audit::LeafDraft request;
      request.type = "request";
      request.fields = {{"mode", "strict"},
                        {"tenant", "default"},
                        {"route", {{"api", "openai.chat"}, {"method", "POST"}}}};
      request.contents = {{"request.body", R"({"prompt":"hi"})"}};
      const audit::Appended asked = log->append_and_wait(std::move(request)).value();
      audit::LeafDraft response;
      response.type = "response";
      response.id = asked.id;
      response.fields = {{"request", asked.index}, {"status", "complete"}, {"cache", "miss"}};
      response.contents = {{"response.body", R"({"answer":"ho"})"}};
      (void)log->append_and_wait(std::move(response)).value();
      clock.advance_us(1000);
    }
    log.reset();
    auto reader = audit::LogReader::open(options.data_dir).value();
    vkey = reader->vkey();
    checkpoint = reader->signed_checkpoint().value();
    for (std::uint64_t i = 0; i < reader->size().value(); ++i) {
      leaves.push_back(reader->leaf(i)->bytes);
      receipts.push_back(reader->receipt(i).value());
    }
    audit::ExportOptions exported;
    for (const char* name : {"bundle", "bundle.zip"}) {
      exported.out = scratch() / name;
      (void)audit::export_evidence(*reader, exported).value();
    }
  }

  ManualClock clock{kNowSeconds * 1'000'000};
  std::string vkey, checkpoint;
  std::vector<std::string> leaves, receipts;
};

inline const SmallLog& small_log() {
  static const SmallLog log;
  return log;
}

}  // namespace verbatim::fuzz
