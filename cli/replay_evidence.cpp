#include "cli/replay_evidence.hpp"

#include "audit/bundle_reader.hpp"
#include "audit/key_file.hpp"
#include "audit/reader.hpp"
#include "audit/shared_records.hpp"
#include "cli/command.hpp"
#include "replay/statement.hpp"
#include "schema/file.hpp"

#include <algorithm>
#include <utility>

namespace verbatim::cli {

namespace {

class LogEvidence final : public ReplayEvidence {
 public:
  LogEvidence(std::unique_ptr<audit::LogReader> reader, std::shared_ptr<audit::LogKey> key,
              std::unique_ptr<audit::Appender> appender)
      : reader_(std::move(reader)), key_(std::move(key)), appender_(std::move(appender)) {}

  audit::RecordSource& records() override { return records_; }

  Result<std::optional<std::uint64_t>> give(const replay::Verdict& verdict) override {
    auto statement = replay::signed_statement(records_, verdict, *key_);
    if (!statement) return statement.error();
    audit::LeafDraft draft;
    draft.type = "replay_verdict";
    draft.fields = replay::verdict_fields(verdict);
    draft.contents.push_back({"statement", std::move(*statement)});
    const auto appended = appender_->append_and_wait(std::move(draft));
    if (!appended) return appended.error();
    return std::optional(appended->index);
  }

  Result<void> text_is_shown(const Uuid& record) override {
    audit::LeafDraft draft;
    draft.type = "access";
    draft.fields = {
        {"record", record.str()}, {"fields", Json::array({"response.tokens"})}, {"actor", actor()}};
    const auto appended = appender_->append_and_wait(std::move(draft));
    if (!appended) return appended.error();
    return {};
  }

  [[nodiscard]] const audit::VerifyReport* verified() const override { return nullptr; }

 private:
  std::unique_ptr<audit::LogReader> reader_;
  audit::SharedRecords records_{*reader_};
  std::shared_ptr<audit::LogKey> key_;
  std::unique_ptr<audit::Appender> appender_;
};

class BundleEvidence final : public ReplayEvidence {
 public:
  BundleEvidence(std::unique_ptr<audit::BundleReader> reader, std::filesystem::path statements)
      : reader_(std::move(reader)), statements_(std::move(statements)) {}

  audit::RecordSource& records() override { return records_; }

  Result<std::optional<std::uint64_t>> give(const replay::Verdict& verdict) override {
    const std::optional<std::uint64_t> no_leaf;
    if (statements_.empty()) return no_leaf;
    const auto statement = replay::statement(records_, verdict);
    if (!statement) return statement.error();
    const auto written = write_output(statements_ / (verdict.record.str() + ".json"), *statement);
    if (!written) return written.error();
    return no_leaf;
  }

  Result<void> text_is_shown(const Uuid&) override { return {}; }
  [[nodiscard]] const audit::VerifyReport* verified() const override {
    return &reader_->verified();
  }

 private:
  std::unique_ptr<audit::BundleReader> reader_;
  audit::SharedRecords records_{*reader_};
  std::filesystem::path statements_;
};

}  // namespace

Result<std::unique_ptr<ReplayEvidence>> log_evidence(const std::filesystem::path& data,
                                                     const Clock& clock) {
  auto reader = audit::LogReader::open(data);
  if (!reader) return reader.error();
  auto key = audit::load_log_key(data);
  if (!key) return key.error();
  auto appender = audit::open_appender(data, clock, warn);
  if (!appender) return appender.error();
  return std::unique_ptr<ReplayEvidence>(
      new LogEvidence(std::move(*reader), std::move(*key), std::move(*appender)));
}

Result<std::unique_ptr<ReplayEvidence>> bundle_evidence(const std::filesystem::path& bundle,
                                                        const audit::VerifyOptions& options,
                                                        const std::filesystem::path& statements) {
  if (auto free = check_not_of_a_log(statements); !free) return free.error();
  auto reader = audit::BundleReader::open(bundle, options);
  if (!reader) return reader.error();
  std::error_code error;
  if (!statements.empty()) std::filesystem::create_directories(statements, error);
  if (error) {
    return Error{Errc::storage_failed, "cannot make the folder: " + error.message(),
                 statements.string(), ""};
  }
  if (!statements.empty()) {
    if (auto possible = check_can_write(statements / "statement.json"); !possible)
      return possible.error();
  }
  return std::unique_ptr<ReplayEvidence>(new BundleEvidence(std::move(*reader), statements));
}

bool lies_in(const std::filesystem::path& file, const std::filesystem::path& folder) {
  std::error_code error;
  const auto inner = std::filesystem::weakly_canonical(std::filesystem::absolute(file), error);
  const auto outer = std::filesystem::weakly_canonical(std::filesystem::absolute(folder), error);
  const auto [end, unused] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end == outer.end();
}

}  // namespace verbatim::cli
