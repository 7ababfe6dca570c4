#pragma once
// Reads the records of an exported bundle, as LogReader reads those of a log: for auditors who have neither the log nor
// its keys. Format: schema/evidence.md. Changes nothing.

#include "audit/records.hpp"
#include "audit/verify.hpp"

#include <filesystem>
#include <memory>

namespace verbatim::audit {

/// A bundle that was verified. What is read later is what was verified, whatever happens to the files meanwhile: each
/// leaf is checked against its hash, each content against its commitment.
class BundleReader final : public RecordSource {
 public:
  /// Verifies a bundle (folder or zip) first. `tampered`: it is not VALID, or under the given policy not witnessed; the
  /// text has the verdict and the first problem. Else as verify(). A zip is unpacked into a temporary folder, which goes
  /// with this object. Keeps about 60 bytes of memory a leaf.
  [[nodiscard]] static Result<std::unique_ptr<BundleReader>> open(const std::filesystem::path& path,
                                                                  const VerifyOptions& options);
  ~BundleReader() override;

  /// What verification said: VALID, and with which key.
  [[nodiscard]] const VerifyReport& verified() const;

  [[nodiscard]] std::string origin() const override;
  [[nodiscard]] std::string vkey() const override;
  [[nodiscard]] Result<KeyChain> keys() override;
  [[nodiscard]] Result<std::string> checkpoint() override;
  [[nodiscard]] Result<StoredLeaf> leaf(std::uint64_t index) override;
  [[nodiscard]] Result<std::vector<StoredLeaf>> leaves_of(const Uuid& id) override;
  /// Reads every leaf.
  [[nodiscard]] Result<std::vector<RecordSummary>> list(const RecordFilter& filter) override;
  [[nodiscard]] Result<OpenedContent> content(std::uint64_t index, std::string_view field) override;

 private:
  class Impl;
  explicit BundleReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace verbatim::audit
