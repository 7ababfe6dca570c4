#pragma once
// A PKCS#11 module (v2.40 interface, mechanisms of v3.0): a shared library, loaded while the process runs.

#include "schema/error.hpp"

#include <p11-kit/pkcs11.h>

#include <filesystem>
#include <memory>
#include <string>

namespace verbatim::audit {

/// "CKR_PIN_INCORRECT", or the number of what has no name here.
[[nodiscard]] std::string pkcs11_result_name(CK_RV result);

/// A module's state is the process's, whoever loaded it: whoever asks for the same file shares it, and the last one to go
/// finalises it (C_Finalize). The library itself stays loaded. Thread-safe. Not to be used in a child after fork().
class Pkcs11Module {
 public:
  /// `invalid_input`: no such file, or no module. `storage_failed`: it does not start.
  [[nodiscard]] static Result<std::unique_ptr<Pkcs11Module>> load(
      const std::filesystem::path& path);
  ~Pkcs11Module();
  Pkcs11Module(const Pkcs11Module&) = delete;
  Pkcs11Module& operator=(const Pkcs11Module&) = delete;

  [[nodiscard]] CK_FUNCTION_LIST* operator->() const { return functions_; }

 private:
  Pkcs11Module(std::string path, CK_FUNCTION_LIST* functions)
      : path_(std::move(path)), functions_(functions) {}

  std::string path_;
  CK_FUNCTION_LIST* functions_;
};

}  // namespace verbatim::audit
