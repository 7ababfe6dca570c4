#include "schema/digest.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace verbatim {

namespace {

// Fetched once: in OpenSSL 3 the lookup costs more than hashing a tree node.
const EVP_MD* sha256_method() {
  static const EVP_MD* const method = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return method;
}

void draw(std::span<std::uint8_t> out) {
  if (RAND_bytes(out.data(), static_cast<int>(out.size())) != 1) {
    throw std::runtime_error("the system's random generator failed");
  }
}

/// Random bytes drawn ahead: every call of OpenSSL's generator takes a lock and asks the kernel for the process id,
/// and a leaf needs a dozen small draws. What was handed out is wiped; a forked child draws anew.
class RandomPool {
 public:
  RandomPool() {
    thread_local RandomPool* mine = nullptr;
    mine = this;
    static const int registered = ::pthread_atfork(nullptr, nullptr, [] {
      if (mine != nullptr) mine->left_ = 0;
    });
    VERBATIM_CHECK(registered == 0);
  }
  ~RandomPool() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }
  RandomPool(const RandomPool&) = delete;
  RandomPool& operator=(const RandomPool&) = delete;

  void take(std::span<std::uint8_t> out) {
    if (out.size() > bytes_.size() / 4) return draw(out);
    if (out.size() > left_) {
      draw(bytes_);
      left_ = bytes_.size();
    }
    left_ -= out.size();
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(left_), out.size(), out.begin());
    OPENSSL_cleanse(bytes_.data() + left_, out.size());
  }

 private:
  std::array<std::uint8_t, 1024> bytes_{};
  std::size_t left_ = 0;
};

EVP_MD_CTX* context_of(void* context) { return static_cast<EVP_MD_CTX*>(context); }

void begin(EVP_MD_CTX* context) {
  VERBATIM_CHECK(EVP_DigestInit_ex(context, sha256_method(), nullptr) == 1);
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  VERBATIM_CHECK(context_ != nullptr);
  begin(context_of(context_));
}

Sha256::~Sha256() { EVP_MD_CTX_free(context_of(context_)); }

Sha256::Sha256(Sha256&& other) noexcept : context_(std::exchange(other.context_, nullptr)) {}

Sha256& Sha256::operator=(Sha256&& other) noexcept {
  std::swap(context_, other.context_);
  return *this;
}

void Sha256::update(Bytes bytes) {
  VERBATIM_CHECK(EVP_DigestUpdate(context_of(context_), bytes.data(), bytes.size()) == 1);
}

Digest Sha256::finish() {
  Digest digest;
  VERBATIM_CHECK(EVP_DigestFinal_ex(context_of(context_), digest.bytes.data(), nullptr) == 1);
  begin(context_of(context_));
  return digest;
}

Digest sha256(std::initializer_list<Bytes> pieces) {
  thread_local Sha256 hash;
  for (const Bytes piece : pieces) hash.update(piece);
  return hash.finish();
}

Digest hmac_sha256(Bytes key, std::initializer_list<Bytes> pieces) {
  std::array<std::uint8_t, 64> block{};
  if (key.size() > block.size()) {
    const Digest short_key = sha256(key);
    std::copy(short_key.bytes.begin(), short_key.bytes.end(), block.begin());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  std::array<std::uint8_t, 64> inner{};
  std::array<std::uint8_t, 64> outer{};
  for (std::size_t i = 0; i < block.size(); ++i) {
    inner[i] = block[i] ^ 0x36;
    outer[i] = block[i] ^ 0x5c;
  }
  Sha256 hash;
  hash.update(Bytes(inner));
  for (const Bytes piece : pieces) hash.update(piece);
  const Digest inside = hash.finish();
  const Digest digest = sha256({Bytes(outer), inside.view()});
  OPENSSL_cleanse(block.data(), block.size());
  OPENSSL_cleanse(inner.data(), inner.size());
  OPENSSL_cleanse(outer.data(), outer.size());
  return digest;
}

Result<Digest> parse_digest(std::string_view hex) {
  const auto bytes = from_hex(hex);
  if (!bytes) return bytes.error();
  Digest digest;
  if (bytes->size() != digest.bytes.size()) {
    return Error{Errc::invalid_input, "a SHA-256 value has 64 hexadecimal digits", "", ""};
  }
  std::copy(bytes->begin(), bytes->end(), digest.bytes.begin());
  return digest;
}

void fill_random(std::span<std::uint8_t> out) {
  thread_local RandomPool pool;
  pool.take(out);
}

}  // namespace verbatim
