// A PKCS#11 module that hands everything on to SoftHSM, counts logins, and fails as it is told to.
//
// Folder $FAULTY_PKCS11: the file `fault` holds one word, or is absent:
//   removed      the token is away, and its sessions are gone
//   garbage      signatures are wrong in one bit
//   short        signatures have 63 bytes
//   other_pin    no PIN is right
//   final_try    one more wrong PIN would lock the token
// and each C_Login adds a line to the file `logins`.

#include <dlfcn.h>
#include <p11-kit/pkcs11.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace {

CK_FUNCTION_LIST* real = nullptr;
CK_FUNCTION_LIST ours;

std::string in_folder(const char* name) {
  const char* const folder = std::getenv("FAULTY_PKCS11");
  return std::string(folder != nullptr ? folder : ".") + "/" + name;
}

bool fault_is(const char* fault) {
  std::ifstream file(in_folder("fault"));
  std::string word;
  return file >> word && word == fault;
}

CK_RV get_slot_list(CK_BBOOL present, CK_SLOT_ID* slots, CK_ULONG* count) {
  if (!fault_is("removed")) return real->C_GetSlotList(present, slots, count);
  *count = 0;
  return CKR_OK;
}

CK_RV get_token_info(CK_SLOT_ID slot, CK_TOKEN_INFO* info) {
  const CK_RV result = real->C_GetTokenInfo(slot, info);
  if (result == CKR_OK && fault_is("final_try")) info->flags |= CKF_USER_PIN_FINAL_TRY;
  return result;
}

CK_RV login(CK_SESSION_HANDLE session, CK_USER_TYPE user, CK_UTF8CHAR* pin, CK_ULONG size) {
  std::ofstream(in_folder("logins"), std::ios::app) << "login\n";
  return fault_is("other_pin") ? CKR_PIN_INCORRECT : real->C_Login(session, user, pin, size);
}

CK_RV sign_init(CK_SESSION_HANDLE session, CK_MECHANISM* mechanism, CK_OBJECT_HANDLE key) {
  if (!fault_is("removed")) return real->C_SignInit(session, mechanism, key);
  real->C_CloseSession(session);
  return CKR_DEVICE_REMOVED;
}

CK_RV sign(CK_SESSION_HANDLE session, CK_BYTE* data, CK_ULONG size, CK_BYTE* signature,
           CK_ULONG* signature_size) {
  const CK_RV result = real->C_Sign(session, data, size, signature, signature_size);
  if (result != CKR_OK) return result;
  if (fault_is("garbage")) signature[40] ^= 1;
  if (fault_is("short")) --*signature_size;
  return result;
}

}  // namespace

extern "C" CK_RV C_GetFunctionList(CK_FUNCTION_LIST** list) {
  void* const library = dlopen(VERBATIM_SOFTHSM, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return CKR_GENERAL_ERROR;
  const auto get = reinterpret_cast<CK_C_GetFunctionList>(dlsym(library, "C_GetFunctionList"));
  if (get == nullptr || get(&real) != CKR_OK) return CKR_GENERAL_ERROR;
  ours = *real;
  ours.C_GetSlotList = get_slot_list;
  ours.C_GetTokenInfo = get_token_info;
  ours.C_Login = login;
  ours.C_SignInit = sign_init;
  ours.C_Sign = sign;
  *list = &ours;
  return CKR_OK;
}
