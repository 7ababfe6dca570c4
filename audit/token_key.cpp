#include "audit/token_key.hpp"

#include "audit/pkcs11_module.hpp"
#include "schema/descriptor.hpp"
#include "schema/file.hpp"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

namespace verbatim::audit {

namespace {

constexpr std::size_t kPinBytesMax = 256;

/// A PIN, for as long as a login takes.
class Pin {
 public:
  explicit Pin(std::string_view text) : bytes_(text.begin(), text.end()) {}
  ~Pin() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }
  Pin(Pin&&) = default;  // takes the bytes along
  Pin& operator=(Pin&&) = delete;
  [[nodiscard]] CK_UTF8CHAR* data() { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

 private:
  std::vector<CK_UTF8CHAR> bytes_;
};

Error no_pin(std::string what, const std::string& where, std::string advice) {
  return Error{Errc::invalid_input, std::move(what), where, std::move(advice)};
}

/// Not by read_file(): its buffers would keep the PIN.
Result<Pin> read_pin_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!file.ok() || ::fstat(file.get(), &info) != 0) {
    return no_pin("cannot read the PIN: " + errno_text(), path, "check the URI's pin-source");
  }
  if ((info.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
    return no_pin("others may read or write the file with the PIN", path, "chmod 600");
  }
  std::array<char, kPinBytesMax + 1> bytes{};
  const ssize_t got = ::read(file.get(), bytes.data(), bytes.size());
  if (got < 0 || static_cast<std::size_t>(got) == bytes.size()) {
    return no_pin("the file does not hold a PIN alone", path, "check the URI's pin-source");
  }
  std::string_view text(bytes.data(), static_cast<std::size_t>(got));
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  Pin pin(text);
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return pin;
}

Result<Pin> read_pin_variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr) {
    return no_pin("the variable with the PIN is not set", name,
                  "set it for every command that signs");
  }
  return Pin(value);
}

Result<Pin> read_pin(const Pkcs11Uri& uri) {
  if (uri.pin_file.empty() && uri.pin_variable.empty()) {
    return no_pin("the token asks for a PIN, and the URI does not say where it is", uri.shown(),
                  "add &pin-source=file:/path or &pin-source=env:NAME");
  }
  auto pin =
      uri.pin_file.empty() ? read_pin_variable(uri.pin_variable) : read_pin_file(uri.pin_file);
  if (pin && pin->size() == 0) {
    return no_pin("the PIN is empty", uri.pin_file + uri.pin_variable, "write the PIN there");
  }
  return pin;
}

/// A field of fixed size, filled up with blanks.
template <std::size_t N>
std::string_view unpadded(const unsigned char (&field)[N]) {
  const std::string_view text(reinterpret_cast<const char*>(field), N);
  const std::size_t last = text.find_last_not_of(' ');
  return last == std::string_view::npos ? "" : text.substr(0, last + 1);
}

bool matches(const Pkcs11Uri& uri, CK_SLOT_ID slot, const CK_TOKEN_INFO& token) {
  const auto is = [](const std::optional<std::string>& wanted, std::string_view there) {
    return !wanted || *wanted == there;
  };
  return is(uri.token, unpadded(token.label)) && is(uri.serial, unpadded(token.serialNumber)) &&
         is(uri.manufacturer, unpadded(token.manufacturerID)) &&
         is(uri.model, unpadded(token.model)) && (!uri.slot_id || *uri.slot_id == slot);
}

/// 32 bytes, bare or (PKCS#11 v2.40 and SoftHSM) in a DER OCTET STRING.
std::optional<Ed25519PublicKey> public_key_in(std::string_view point) {
  if (point.size() == 34 && point.starts_with("\x04\x20")) point.remove_prefix(2);
  Ed25519PublicKey key{};
  if (point.size() != key.size()) return std::nullopt;
  std::copy(point.begin(), point.end(), key.begin());
  return key;
}

/// What passes by itself: the token was taken out, or does not answer. Any other failed login may have cost a try.
bool is_passing(CK_RV result) {
  static constexpr CK_RV kPassing[] = {CKR_DEVICE_REMOVED,       CKR_TOKEN_NOT_PRESENT,
                                       CKR_TOKEN_NOT_RECOGNIZED, CKR_SESSION_CLOSED,
                                       CKR_DEVICE_ERROR,         CKR_SESSION_HANDLE_INVALID};
  return std::find(std::begin(kPassing), std::end(kPassing), result) != std::end(kPassing);
}

}  // namespace

/// A session, logged in, with the key found. Not thread-safe.
class TokenKey::Connection {
 public:
  static Result<std::unique_ptr<Connection>> open(const Pkcs11Uri& uri,
                                                  std::optional<Error>& pin_refused);
  ~Connection() {
    if (session_open_) (*module_)->C_CloseSession(session_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] const Ed25519PublicKey& public_key() const { return public_key_; }
  Result<Ed25519Signature> sign(Bytes message);

 private:
  Connection(const Pkcs11Uri& uri, std::unique_ptr<Pkcs11Module> module)
      : uri_(uri), module_(std::move(module)) {}
  [[nodiscard]] Error failed(const std::string& what, CK_RV result) const {
    return Error{Errc::storage_failed, what + ": " + pkcs11_result_name(result), uri_.shown(),
                 "check the token"};
  }
  Result<std::vector<CK_SLOT_ID>> slots();
  Result<void> find_token();
  Result<void> log_in(std::optional<Error>& pin_refused);
  Result<void> find_key();
  Result<void> find_public_key();
  Result<std::vector<CK_OBJECT_HANDLE>> find(std::vector<CK_ATTRIBUTE> wanted);
  Result<std::string> attribute(CK_OBJECT_HANDLE object, CK_ATTRIBUTE_TYPE type);

  const Pkcs11Uri uri_;
  std::unique_ptr<Pkcs11Module> module_;
  CK_SLOT_ID slot_ = 0;
  CK_FLAGS token_flags_ = 0;
  CK_SESSION_HANDLE session_ = 0;
  bool session_open_ = false;
  CK_OBJECT_HANDLE key_ = 0;
  Ed25519PublicKey public_key_{};
};

Result<std::unique_ptr<TokenKey::Connection>> TokenKey::Connection::open(
    const Pkcs11Uri& uri, std::optional<Error>& pin_refused) {
  auto module = Pkcs11Module::load(uri.module_path);
  if (!module) return module.error();
  std::unique_ptr<Connection> made(new Connection(uri, std::move(*module)));
  if (auto done = made->find_token(); !done) return done.error();
  const CK_RV result =
      (*made->module_)
          ->C_OpenSession(made->slot_, CKF_SERIAL_SESSION, nullptr, nullptr, &made->session_);
  if (result != CKR_OK) return made->failed("the token opens no session", result);
  made->session_open_ = true;
  if (auto done = made->log_in(pin_refused); !done) return done.error();
  if (auto done = made->find_key(); !done) return done.error();
  if (auto done = made->find_public_key(); !done) return done.error();
  return made;
}

Result<std::vector<CK_SLOT_ID>> TokenKey::Connection::slots() {
  CK_ULONG count = 0;
  CK_RV result = (*module_)->C_GetSlotList(CK_TRUE, nullptr, &count);
  std::vector<CK_SLOT_ID> found(count);
  if (result == CKR_OK) result = (*module_)->C_GetSlotList(CK_TRUE, found.data(), &count);
  if (result != CKR_OK) return failed("the module lists no slots", result);
  found.resize(std::min<std::size_t>(count, found.size()));
  return found;
}

Result<void> TokenKey::Connection::find_token() {
  const auto all = slots();
  if (!all) return all.error();
  std::size_t found = 0;
  std::string labels;
  for (const CK_SLOT_ID slot : *all) {
    CK_TOKEN_INFO token{};
    if ((*module_)->C_GetTokenInfo(slot, &token) != CKR_OK) continue;
    if ((token.flags & CKF_TOKEN_INITIALIZED) == 0) continue;
    labels += (labels.empty() ? "" : ", ") + std::string(unpadded(token.label));
    if (!matches(uri_, slot, token)) continue;
    ++found;
    slot_ = slot;
    token_flags_ = token.flags;
  }
  if (found == 1) return {};
  if (found > 1) {
    return Error{Errc::invalid_input, std::to_string(found) + " tokens match", uri_.shown(),
                 "add serial= or slot-id= to the URI"};
  }
  return Error{Errc::storage_failed, "there is no such token", uri_.shown(),
               labels.empty() ? "the module has no token: put it in"
                              : "those that are there: " + labels.substr(0, 256)};
}

Result<void> TokenKey::Connection::log_in(std::optional<Error>& pin_refused) {
  CK_SESSION_INFO session{};
  const bool logged_in =
      (*module_)->C_GetSessionInfo(session_, &session) == CKR_OK &&
      (session.state == CKS_RO_USER_FUNCTIONS || session.state == CKS_RW_USER_FUNCTIONS);
  if (logged_in || (token_flags_ & CKF_LOGIN_REQUIRED) == 0) return {};
  if ((token_flags_ & (CKF_USER_PIN_FINAL_TRY | CKF_USER_PIN_LOCKED)) != 0) {
    const bool locked = (token_flags_ & CKF_USER_PIN_LOCKED) != 0;
    return no_pin(locked ? "the token is locked"
                         : "one more wrong PIN would lock the token: it is not tried here",
                  uri_.shown(), "log in by hand with the right PIN (pkcs11-tool --login)");
  }
  auto pin = read_pin(uri_);
  if (!pin) return pin.error();
  const CK_RV result = (*module_)->C_Login(session_, CKU_USER, pin->data(), pin->size());
  if (result == CKR_OK || result == CKR_USER_ALREADY_LOGGED_IN) return {};
  if (is_passing(result)) return failed("the token takes no login", result);
  pin_refused =
      no_pin("the token refused the PIN: " + pkcs11_result_name(result), uri_.shown(),
             "it is not tried again before the next start: too many wrong ones lock a token");
  return *pin_refused;
}

Result<std::vector<CK_OBJECT_HANDLE>> TokenKey::Connection::find(std::vector<CK_ATTRIBUTE> wanted) {
  CK_RV result = (*module_)->C_FindObjectsInit(session_, wanted.data(), wanted.size());
  if (result != CKR_OK) return failed("the token cannot be searched", result);
  std::vector<CK_OBJECT_HANDLE> found(2);  // more than one is one too many
  CK_ULONG count = 0;
  result = (*module_)->C_FindObjects(session_, found.data(), found.size(), &count);
  (*module_)->C_FindObjectsFinal(session_);
  if (result != CKR_OK) return failed("the token cannot be searched", result);
  found.resize(std::min<std::size_t>(count, found.size()));
  return found;
}

Result<std::string> TokenKey::Connection::attribute(CK_OBJECT_HANDLE object,
                                                    CK_ATTRIBUTE_TYPE type) {
  std::string value(256, '\0');
  CK_ATTRIBUTE wanted{type, value.data(), value.size()};
  const CK_RV result = (*module_)->C_GetAttributeValue(session_, object, &wanted, 1);
  if (result != CKR_OK) return failed("the token does not describe the key", result);
  value.resize(std::min<std::size_t>(wanted.ulValueLen, value.size()));
  return value;
}

Result<void> TokenKey::Connection::find_key() {
  CK_OBJECT_CLASS type = CKO_PRIVATE_KEY;
  std::vector<CK_ATTRIBUTE> wanted{{CKA_CLASS, &type, sizeof type}};
  std::string label = uri_.object.value_or(""), id = uri_.id.value_or("");
  if (uri_.object) wanted.push_back({CKA_LABEL, label.data(), label.size()});
  if (uri_.id) wanted.push_back({CKA_ID, id.data(), id.size()});
  const auto found = find(std::move(wanted));
  if (!found) return found.error();
  if (found->size() != 1) {
    return found->empty() ? Error{Errc::not_found, "the token has no such private key",
                                  uri_.shown(), "pkcs11-tool --list-objects --login shows them"}
                          : Error{Errc::invalid_input, "more than one private key matches",
                                  uri_.shown(), "add object= or id= to the URI"};
  }
  key_ = found->front();
  const auto kind = attribute(key_, CKA_KEY_TYPE);
  if (!kind) return kind.error();
  CK_KEY_TYPE key_type = 0;
  if (kind->size() != sizeof key_type) return failed("the token does not describe the key", CKR_OK);
  std::copy(kind->begin(), kind->end(), reinterpret_cast<char*>(&key_type));
  if (key_type != CKK_EC_EDWARDS) {
    return Error{Errc::unsupported,
                 "the key is not an Ed25519 key (its type is " + std::to_string(key_type) + ")",
                 uri_.shown(), "a log's key is of type EC:edwards25519"};
  }
  return {};
}

Result<void> TokenKey::Connection::find_public_key() {
  auto id = attribute(key_, CKA_ID);
  if (!id) return id.error();
  auto label = attribute(key_, CKA_LABEL);
  if (!label) return label.error();
  CK_OBJECT_CLASS type = CKO_PUBLIC_KEY;
  std::vector<CK_ATTRIBUTE> wanted{{CKA_CLASS, &type, sizeof type}};
  std::string& same = id->empty() ? *label : *id;
  wanted.push_back({id->empty() ? CKA_LABEL : CKA_ID, same.data(), same.size()});
  const auto found = find(std::move(wanted));
  if (!found) return found.error();
  if (found->size() != 1) {
    return Error{found->empty() ? Errc::not_found : Errc::invalid_input,
                 found->empty() ? "the token lacks the public half of the key"
                                : "more than one public key belongs to the private one",
                 uri_.shown(), "one public key with the same id must be there"};
  }
  const auto point = attribute(found->front(), CKA_EC_POINT);
  if (!point) return point.error();
  const auto key = public_key_in(*point);
  if (!key) {
    return Error{Errc::unsupported, "the public half is not an Ed25519 key", uri_.shown(),
                 "a log's key is of type EC:edwards25519"};
  }
  public_key_ = *key;
  return {};
}

Result<Ed25519Signature> TokenKey::Connection::sign(Bytes message) {
  CK_MECHANISM mechanism{CKM_EDDSA, nullptr, 0};  // no parameters: pure Ed25519
  CK_RV result = (*module_)->C_SignInit(session_, &mechanism, key_);
  if (result != CKR_OK) return failed("the token does not sign", result);
  Ed25519Signature signature{};
  CK_ULONG size = signature.size();
  // The interface takes a pointer that is not const, and writes nothing through it.
  auto* const data = const_cast<CK_BYTE*>(message.data());
  result = (*module_)->C_Sign(session_, data, message.size(), signature.data(), &size);
  if (result != CKR_OK) return failed("the token does not sign", result);
  if (size != signature.size() || !ed25519_verify(public_key_, message, signature)) {
    return Error{Errc::storage_failed, "the token gave a signature that does not verify",
                 uri_.shown(), "it was not used; check the token"};
  }
  return signature;
}

TokenKey::TokenKey(Pkcs11Uri uri, std::unique_ptr<Connection> connection, VerifierKey verifier)
    : uri_(std::move(uri)), verifier_(std::move(verifier)), connection_(std::move(connection)) {}

TokenKey::~TokenKey() = default;

Result<std::unique_ptr<TokenKey>> TokenKey::open(const Pkcs11Uri& uri, const std::string& name) {
  std::optional<Error> refused;
  auto connection = Connection::open(uri, refused);
  if (!connection) return connection.error();
  VerifierKey verifier{name, kNoteEd25519, (*connection)->public_key()};
  return std::unique_ptr<TokenKey>(new TokenKey(uri, std::move(*connection), std::move(verifier)));
}

Result<void> TokenKey::connect_again() {
  if (pin_refused_) return *pin_refused_;
  auto connection = Connection::open(uri_, pin_refused_);
  if (!connection) return connection.error();
  if ((*connection)->public_key() != verifier_.key) {
    return Error{Errc::storage_failed, "the token that came back has another key", uri_.shown(),
                 "put the log's own token in"};
  }
  connection_ = std::move(*connection);
  return {};
}

Result<Ed25519Signature> TokenKey::sign_now(Bytes message) {
  if (connection_) {
    auto signature = connection_->sign(message);
    if (signature) return signature;
    connection_.reset();  // first: the module begins anew if nobody else uses it
  }
  if (auto done = connect_again(); !done) return done.error();
  auto signature = connection_->sign(message);
  if (!signature) connection_.reset();
  return signature;
}

Result<Ed25519Signature> TokenKey::sign(Bytes message) {
  const std::lock_guard lock(mutex_);
  auto signature = sign_now(message);
  if (signature) return signature;
  // Whatever it was: it is no fault of what was to be signed.
  Error error = signature.error();
  error.code = Errc::storage_failed;
  return error;
}

}  // namespace verbatim::audit
