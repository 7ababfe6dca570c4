#include "audit/pkcs11_module.hpp"

#include <dlfcn.h>

#include <array>
#include <charconv>
#include <map>
#include <mutex>
#include <utility>

namespace verbatim::audit {

namespace {

/// The modules in use. PKCS#11 has one state a process, so this is the process's too.
struct Loaded {
  CK_FUNCTION_LIST* functions = nullptr;
  int users = 0;
  bool initialised_here = false;
};
struct Table {
  std::mutex mutex;
  std::map<std::string, Loaded> modules;
};
Table& table() {
  static Table one;
  return one;
}

Error no_module(const std::string& path, const std::string& why) {
  return Error{Errc::invalid_input, "not a PKCS#11 module: " + why, path,
               "check the URI's module-path"};
}

Result<CK_FUNCTION_LIST*> functions_of(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return no_module(path, why != nullptr ? why : "it cannot be loaded");
  }
  const auto get = reinterpret_cast<CK_C_GetFunctionList>(::dlsym(library, "C_GetFunctionList"));
  CK_FUNCTION_LIST* functions = nullptr;
  if (get == nullptr) {
    ::dlclose(library);
    return no_module(path, "it lacks C_GetFunctionList");
  }
  if (get(&functions) != CKR_OK || functions == nullptr) {
    return no_module(path, "it gives no functions");
  }
  return functions;
}

}  // namespace

std::string pkcs11_result_name(CK_RV result) {
  static constexpr std::pair<CK_RV, const char*> kNames[] = {
      {CKR_HOST_MEMORY, "CKR_HOST_MEMORY"},
      {CKR_SLOT_ID_INVALID, "CKR_SLOT_ID_INVALID"},
      {CKR_GENERAL_ERROR, "CKR_GENERAL_ERROR"},
      {CKR_FUNCTION_FAILED, "CKR_FUNCTION_FAILED"},
      {CKR_ARGUMENTS_BAD, "CKR_ARGUMENTS_BAD"},
      {CKR_DEVICE_ERROR, "CKR_DEVICE_ERROR"},
      {CKR_DEVICE_MEMORY, "CKR_DEVICE_MEMORY"},
      {CKR_DEVICE_REMOVED, "CKR_DEVICE_REMOVED"},
      {CKR_FUNCTION_NOT_SUPPORTED, "CKR_FUNCTION_NOT_SUPPORTED"},
      {CKR_KEY_HANDLE_INVALID, "CKR_KEY_HANDLE_INVALID"},
      {CKR_KEY_TYPE_INCONSISTENT, "CKR_KEY_TYPE_INCONSISTENT"},
      {CKR_KEY_FUNCTION_NOT_PERMITTED, "CKR_KEY_FUNCTION_NOT_PERMITTED"},
      {CKR_MECHANISM_INVALID, "CKR_MECHANISM_INVALID"},
      {CKR_OBJECT_HANDLE_INVALID, "CKR_OBJECT_HANDLE_INVALID"},
      {CKR_PIN_INCORRECT, "CKR_PIN_INCORRECT"},
      {CKR_PIN_INVALID, "CKR_PIN_INVALID"},
      {CKR_PIN_LEN_RANGE, "CKR_PIN_LEN_RANGE"},
      {CKR_PIN_EXPIRED, "CKR_PIN_EXPIRED"},
      {CKR_PIN_LOCKED, "CKR_PIN_LOCKED"},
      {CKR_SESSION_CLOSED, "CKR_SESSION_CLOSED"},
      {CKR_SESSION_COUNT, "CKR_SESSION_COUNT"},
      {CKR_SESSION_HANDLE_INVALID, "CKR_SESSION_HANDLE_INVALID"},
      {CKR_TOKEN_NOT_PRESENT, "CKR_TOKEN_NOT_PRESENT"},
      {CKR_TOKEN_NOT_RECOGNIZED, "CKR_TOKEN_NOT_RECOGNIZED"},
      {CKR_USER_NOT_LOGGED_IN, "CKR_USER_NOT_LOGGED_IN"},
      {CKR_USER_PIN_NOT_INITIALIZED, "CKR_USER_PIN_NOT_INITIALIZED"},
      {CKR_USER_ANOTHER_ALREADY_LOGGED_IN, "CKR_USER_ANOTHER_ALREADY_LOGGED_IN"},
      {CKR_CRYPTOKI_NOT_INITIALIZED, "CKR_CRYPTOKI_NOT_INITIALIZED"},
  };
  for (const auto& [value, name] : kNames) {
    if (value == result) return name;
  }
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), result, 16).ptr;
  return "CKR 0x" + std::string(digits.data(), end);
}

Result<std::unique_ptr<Pkcs11Module>> Pkcs11Module::load(const std::filesystem::path& path) {
  const std::lock_guard lock(table().mutex);
  Loaded& loaded = table().modules[path.string()];
  if (loaded.users == 0) {
    const auto functions = functions_of(path.string());
    if (!functions) return functions.error();
    CK_C_INITIALIZE_ARGS arguments{};
    arguments.flags = CKF_OS_LOCKING_OK;
    const CK_RV result = (*functions)->C_Initialize(&arguments);
    if (result != CKR_OK && result != CKR_CRYPTOKI_ALREADY_INITIALIZED) {
      return Error{Errc::storage_failed,
                   "the PKCS#11 module does not start: " + pkcs11_result_name(result),
                   path.string(), "see the documentation of the module"};
    }
    loaded = {*functions, 0, result == CKR_OK};
  }
  ++loaded.users;
  return std::unique_ptr<Pkcs11Module>(new Pkcs11Module(path.string(), loaded.functions));
}

Pkcs11Module::~Pkcs11Module() {
  const std::lock_guard lock(table().mutex);
  Loaded& loaded = table().modules[path_];
  if (--loaded.users == 0 && loaded.initialised_here) functions_->C_Finalize(nullptr);
}

}  // namespace verbatim::audit
