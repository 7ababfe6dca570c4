#pragma once
// Tokens of SoftHSM in a folder of the test's own.

#include "schema/file.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace verbatim::audit::test {

inline constexpr const char* kPin = "0451-canary-pin";

class SoftTokens {
 public:
  /// For this process: SoftHSM reads $SOFTHSM2_CONF when it is initialised.
  explicit SoftTokens(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_ / "tokens");
    std::ofstream(folder_ / "softhsm2.conf")
        << "directories.tokendir = " << (folder_ / "tokens").string()
        << "\nobjectstore.backend = file\nlog.level = ERROR\n";
    ::setenv("SOFTHSM2_CONF", (folder_ / "softhsm2.conf").c_str(), 1);
    ::setenv("FAULTY_PKCS11", folder_.c_str(), 1);
    write_pin(kPin);
  }

  static bool are_there() {
    return std::filesystem::exists(VERBATIM_SOFTHSM) &&
           std::system("command -v pkcs11-tool softhsm2-util > /dev/null") == 0;
  }

  void init(const std::string& label) const {
    run("softhsm2-util --init-token --free --so-pin 12345678 --pin '" + std::string(kPin) +
        "' --label '" + label + "'");
  }
  void make_key(const std::string& token, const std::string& label, const std::string& id,
                const std::string& type = "EC:edwards25519") const {
    run("pkcs11-tool --module " VERBATIM_SOFTHSM " --login --pin '" + std::string(kPin) +
        "' --token-label '" + token + "' --keypairgen --key-type " + type + " --label '" + label +
        "' --id " + id);
  }
  void drop_public_half(const std::string& token, const std::string& id) const {
    run("pkcs11-tool --module " VERBATIM_SOFTHSM " --login --pin '" + std::string(kPin) +
        "' --token-label '" + token + "' --delete-object --type pubkey --id " + id);
  }

  [[nodiscard]] std::string uri(const std::string& token, const std::string& key,
                                const std::string& module = VERBATIM_SOFTHSM) const {
    return "pkcs11:token=" + token + ";object=" + key + "?module-path=" + module +
           "&pin-source=file:" + (folder_ / "pin").string();
  }
  /// By way of the module that fails as told.
  [[nodiscard]] std::string faulty(const std::string& token, const std::string& key) const {
    return uri(token, key, VERBATIM_FAULTY_PKCS11);
  }

  void fault(const std::string& word) const { std::ofstream(folder_ / "fault") << word; }
  void mend() const { std::filesystem::remove(folder_ / "fault"); }
  [[nodiscard]] std::size_t logins() const {
    std::ifstream file(folder_ / "logins");
    std::size_t count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }
  void write_pin(const std::string& pin, unsigned mode = 0600) const {
    ASSERT_TRUE(write_file(folder_ / "pin", pin + "\n", mode));
  }

 private:
  void run(const std::string& command) const {
    const std::string said = (folder_ / "said").string();
    ASSERT_EQ(std::system((command + " > '" + said + "' 2>&1").c_str()), 0)
        << command << "\n"
        << read_file(said, 1 << 20).value();
  }

  std::filesystem::path folder_;
};

}  // namespace verbatim::audit::test
